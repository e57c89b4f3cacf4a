#!/usr/bin/env node
// Headless model check: opens FILE with Netron's own JavaScript and prints what Netron sees as JSON.
//
//   node netron_check.mjs FILE [--netron DIR] [--compact] [--values N] [--lenient]
//
// Netron is not part of this file: it is taken from an installed `netron` Python package
// (its wheel ships the .js sources).  The directory is looked for in this order:
//   --netron DIR, $NETRON_DIR, a `netron` package importable by $PYTHON / python3 / python.
//
// Exit status: 0 Netron opened the file and every shown value could be rendered,
//              1 Netron threw (or the file shows as an empty model), 2 usage or set-up error.

import * as child from 'node:child_process';
import * as crypto from 'node:crypto';
import * as fs from 'node:fs';
import * as module from 'node:module';
import * as path from 'node:path';
import * as url from 'node:url';

const here = path.dirname(url.fileURLToPath(import.meta.url));

const usage = (message) => {
    if (message) {
        process.stderr.write(`netron_check: ${message}\n`);
    }
    process.stderr.write('usage: node netron_check.mjs FILE [--netron DIR] [--compact] [--values N] [--lenient]\n');
    process.exit(2);
};

const options = { file: null, netron: process.env.NETRON_DIR || null, indent: 2, values: 8, lenient: false };
for (let i = 2; i < process.argv.length; i++) {
    const arg = process.argv[i];
    switch (arg) {
        case '--netron': options.netron = process.argv[++i]; break;
        case '--compact': options.indent = 0; break;
        case '--values': options.values = parseInt(process.argv[++i], 10); break;
        case '--lenient': options.lenient = true; break;
        case '-h': case '--help': usage(); break;
        default:
            if (arg.startsWith('--') || options.file) {
                usage(`unexpected argument '${arg}'`);
            }
            options.file = arg;
            break;
    }
}
if (!options.file) {
    usage('no file given');
}

const isNetron = (dir) => dir && fs.existsSync(path.join(dir, 'view.js')) && fs.existsSync(path.join(dir, 'om.js'));

const locate = () => {
    if (options.netron) {
        const candidates = [options.netron, path.join(options.netron, 'source'), path.join(options.netron, 'netron')];
        const found = candidates.find(isNetron);
        if (!found) {
            usage(`'${options.netron}' holds no Netron sources (view.js, om.js)`);
        }
        return found;
    }
    const script = "import importlib.util as u; s = u.find_spec('netron'); print(s.submodule_search_locations[0] if s else '')";
    for (const python of [process.env.PYTHON, 'python3', 'python'].filter(Boolean)) {
        const result = child.spawnSync(python, ['-c', script], { encoding: 'utf-8' });
        const dir = result.status === 0 ? result.stdout.trim() : '';
        if (isNetron(dir)) {
            return dir;
        }
    }
    return usage("Netron was not found; 'pip install netron' or pass --netron DIR");
};

const netron = fs.realpathSync(locate());

// The wheel's files are ES modules without a package.json that says so.
const prefix = url.pathToFileURL(`${netron}${path.sep}`).href;
const hooks = `
export async function load(location, context, next) {
    if (location.startsWith(${JSON.stringify(prefix)}) && location.endsWith('.js')) {
        return next(location, { ...context, format: 'module' });
    }
    return next(location, context);
}`;
if (module.register) {
    module.register(`data:text/javascript,${encodeURIComponent(hooks)}`, import.meta.url);
}

const load = (name) => import(url.pathToFileURL(path.join(netron, `${name}.js`)).href);

const version = () => {
    const parent = path.dirname(netron);
    const info = fs.readdirSync(parent).find((name) => /^netron-[\d.]+\.dist-info$/.test(name));
    if (info) {
        return info.slice('netron-'.length, -'.dist-info'.length);
    }
    const manifest = path.join(parent, 'package.json');
    return fs.existsSync(manifest) ? JSON.parse(fs.readFileSync(manifest, 'utf-8')).version : '';
};

// What Netron asks of its surroundings while it opens a file.
class Host {

    constructor(folder, streams) {
        this.folder = folder;
        this.streams = streams;
        this.errors = [];
    }

    async require(id) {
        return load(id.replace(/^\.\//, ''));
    }

    async asset(name) {
        return fs.promises.readFile(path.join(netron, name), 'utf-8');
    }

    async fetch(name, encoding, base) {
        const file = path.resolve(this.folder, base || '', name);
        if (!fs.existsSync(file) || !fs.statSync(file).isFile()) {
            throw new Error(`The file '${name}' does not exist.`);
        }
        return encoding ? fs.promises.readFile(file, encoding) : this.streams(file);
    }

    environment() {
        return null;
    }

    event() {
    }

    exception(error) {
        this.errors.push(error);
    }
}

class Context {

    constructor(host, file) {
        this.host = host;
        this.identifier = path.basename(file);
        this.stream = host.streams(file);
        this.entries = new Map();
    }

    async asset(name) {
        return this.host.asset(name);
    }

    async fetch(name, encoding, base) {
        return this.host.fetch(name, encoding, base);
    }

    async require(id) {
        return this.host.require(id);
    }

    error(error) {
        this.host.exception(error);
    }
}

const plain = (value, depth = 0) => {
    if (value === undefined || value === null) {
        return null;
    }
    switch (typeof value) {
        case 'bigint': return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value.toString();
        case 'number': return Number.isFinite(value) ? value : value.toString();
        case 'string': case 'boolean': return value;
        case 'function': return null;
        default: break;
    }
    if (value instanceof Uint8Array) {
        return { bytes: value.length, base64: Buffer.from(value.subarray(0, 48)).toString('base64') };
    }
    if (Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView))) {
        return Array.from(value, (item) => plain(item, depth + 1));
    }
    if (depth > 6) {
        return value.toString();
    }
    if (value.constructor && value.constructor !== Object && typeof value.toString === 'function' && value.toString !== Object.prototype.toString) {
        return value.toString();
    }
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item, depth + 1)]));
};

const main = async () => {
    const [view, base, node, zip] = await Promise.all(['view', 'base', 'node', 'zip'].map(load));
    await zip.Archive.import();
    const streams = (file) => {
        const stat = fs.statSync(file);
        return new node.FileStream(file, 0, stat.size, stat.mtimeMs);
    };
    const file = path.resolve(options.file);
    if (!fs.existsSync(file)) {
        usage(`'${options.file}' does not exist`);
    }
    const host = new Host(path.dirname(file), streams);
    const service = new view.ModelFactoryService(host);
    const model = await service.open(new Context(host, file));

    const problems = [];
    const tensors = [];
    const seen = new Map();

    const typeOf = (type) => {
        if (!type) {
            return null;
        }
        const dimensions = type.shape && Array.isArray(type.shape.dimensions) ? plain(type.shape.dimensions) : null;
        const entry = { dtype: type.dataType === undefined ? plain(type) : type.dataType, shape: dimensions };
        if (type.denotation) {
            entry.denotation = type.denotation;
        }
        return entry;
    };

    const addTensor = async (tensor, where, name) => {
        if (seen.has(tensor)) {
            return seen.get(tensor);
        }
        const id = tensors.length;
        seen.set(tensor, id);
        const entry = { id, name: name || tensor.name || '', ...where, category: tensor.category || null };
        tensors.push(entry);
        try {
            Object.assign(entry, typeOf(tensor.type));
            if (tensor.peek && !tensor.peek()) {
                await tensor.read();
            }
            const reader = new base.Tensor(tensor);
            entry.encoding = reader.encoding;
            entry.layout = reader.layout || null;
            const data = reader.encoding === '|' ? null : reader.data;
            entry.byteLength = ArrayBuffer.isView(data) ? data.byteLength : null;
            if (data instanceof Uint8Array) {
                entry.sha256 = crypto.createHash('sha256').update(data).digest('hex');
            }
            entry.empty = reader.empty;
            if (!entry.empty) {
                const rendered = reader.toString();
                if (options.values > 0) {
                    const flat = [];
                    const walk = (item) => {
                        if (Array.isArray(item)) {
                            for (const child of item) {
                                if (flat.length >= options.values) {
                                    break;
                                }
                                walk(child);
                            }
                        } else {
                            flat.push(plain(item));
                        }
                    };
                    const count = (entry.shape || []).reduce((a, b) => a * b, 1);
                    if (count <= 1000000) {
                        walk(reader.value);
                        entry.values = flat;
                    } else {
                        entry.text = rendered.substring(0, 120);
                    }
                }
            }
        } catch (error) {
            entry.error = error.message;
            problems.push(`tensor '${entry.name}': ${error.message}`);
        }
        return id;
    };

    const valueOf = async (value, where) => {
        if (!value) {
            return null;
        }
        const entry = { name: value.name, type: typeOf(value.type) };
        if (value.initializer) {
            entry.tensor = await addTensor(value.initializer, where, value.name);
        }
        return entry;
    };

    const argumentOf = async (argument, where) => {
        const entry = { name: argument.name };
        if (argument.type) {
            entry.type = argument.type;
        }
        const list = Array.isArray(argument.value) ? argument.value : [argument.value];
        if (!argument.type || argument.type.endsWith('*')) {
            entry.values = [];
            for (const value of list) {
                entry.values.push(await valueOf(value, { ...where, argument: argument.name }));
            }
        } else {
            entry.value = plain(argument.value);
        }
        return entry;
    };

    const attributeOf = async (attribute, where) => {
        const entry = { name: attribute.name, type: attribute.type || null };
        const value = attribute.value;
        try {
            if ((attribute.type === 'graph' || attribute.type === 'function') && value && Array.isArray(value.nodes)) {
                entry.value = await graphOf(value);
            } else if (attribute.type === 'tensor' && value) {
                entry.tensor = await addTensor(value, { ...where, attribute: attribute.name });
            } else {
                entry.text = new view.Formatter(value, attribute.type).toString();
                entry.value = plain(value);
            }
        } catch (error) {
            entry.error = error.message;
            problems.push(`attribute '${where.node}.${attribute.name}': ${error.message}`);
        }
        return entry;
    };

    const nodeOf = async (item, graph) => {
        const where = { graph: graph.name || '', node: item.name || '' };
        if (!item.type || typeof item.type.name !== 'string') {
            problems.push(`node '${where.node}': no type name`);
        }
        const entry = { type: item.type ? item.type.name : null, name: where.node, inputs: [], outputs: [], attributes: [] };
        for (const argument of item.inputs || []) {
            entry.inputs.push(await argumentOf(argument, where));
        }
        for (const argument of item.outputs || []) {
            entry.outputs.push(await argumentOf(argument, where));
        }
        for (const attribute of item.attributes || []) {
            entry.attributes.push(await attributeOf(attribute, where));
        }
        if (item.chain && item.chain.length > 0) {
            entry.chain = [];
            for (const child of item.chain) {
                entry.chain.push(await nodeOf(child, graph));
            }
        }
        if (item.controlDependencies && item.controlDependencies.length > 0) {
            entry.controlDependencies = item.controlDependencies.map((value) => value.name);
        }
        if (item.device) {
            entry.device = plain(item.device);
        }
        return entry;
    };

    // One name, one value object: Netron's own tests reject a graph that breaks this.
    // Netron itself draws an edge without a source silently; those names come back as `dangling`.
    const checkNames = (graph) => {
        const values = new Map();
        const made = new Set();
        const used = new Set();
        const names = (list, target) => {
            for (const argument of list || []) {
                if (argument && (!argument.type || argument.type.endsWith('*')) && Array.isArray(argument.value)) {
                    for (const value of argument.value) {
                        if (value && value.name && !value.initializer) {
                            target.add(value.name);
                        }
                    }
                }
            }
        };
        names(graph.inputs, made);
        names(graph.outputs, used);
        for (const item of graph.nodes) {
            names(item.outputs, made);
            names(item.inputs, used);
        }
        const check = (argument) => {
            if (argument && (!argument.type || argument.type.endsWith('*')) && Array.isArray(argument.value)) {
                for (const value of argument.value) {
                    if (value && value.name && !value.initializer) {
                        if (values.has(value.name) && values.get(value.name) !== value) {
                            problems.push(`graph '${graph.name || ''}': duplicate value '${value.name}'`);
                        }
                        values.set(value.name, value);
                    }
                }
            }
        };
        for (const argument of [...graph.inputs || [], ...graph.outputs || []]) {
            check(argument);
        }
        for (const item of graph.nodes) {
            for (const argument of [...item.inputs || [], ...item.outputs || []]) {
                check(argument);
            }
        }
        return Array.from(used).filter((name) => !made.has(name));
    };

    const graphOf = async (graph) => {
        const dangling = checkNames(graph);
        const where = { graph: graph.name || '', node: '' };
        const entry = { name: graph.name || '', inputs: [], outputs: [], nodes: [], dangling };
        for (const argument of graph.inputs || []) {
            entry.inputs.push(await argumentOf(argument, where));
        }
        for (const argument of graph.outputs || []) {
            entry.outputs.push(await argumentOf(argument, where));
        }
        for (const item of graph.nodes) {
            entry.nodes.push(await nodeOf(item, graph));
        }
        return entry;
    };

    const result = {
        file: options.file,
        netron: { version: version(), dir: netron },
        format: model.format,
        producer: model.producer || null,
        version: model.version || null,
        runtime: model.runtime || null,
        graphs: [],
        functions: [],
        tensors,
        errors: []
    };
    for (const graph of model.modules || []) {
        result.graphs.push(await graphOf(graph));
    }
    for (const graph of model.functions || []) {
        result.functions.push(await graphOf(graph));
    }
    if (result.graphs.length === 0 || result.graphs.every((graph) => graph.nodes.length === 0)) {
        problems.push('the model shows no graph nodes');
    }
    result.errors = [...host.errors.map((error) => error.message), ...problems];
    result.ok = result.errors.length === 0;
    return result;
};

const print = (obj) => process.stdout.write(`${JSON.stringify(obj, null, options.indent || undefined)}\n`);

try {
    const result = await main();
    print(result);
    process.exitCode = result.ok || options.lenient ? 0 : 1;
} catch (error) {
    print({ file: options.file, netron: { version: version(), dir: netron }, ok: false, errors: [error.message], name: error.name, stack: (error.stack || '').split('\n').slice(0, 6) });
    process.exitCode = 1;
}
