// Tokenises files with a TextMate grammar, as VS Code does, and prints [line, start, end, scopes] of each token as JSON.
// Usage: node tokenise.js GRAMMAR.json FILE...
"use strict";

const { readFileSync } = require("node:fs");
const oniguruma = require("vscode-oniguruma");
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate");

async function main([grammarFile, ...files]) {
  const wasm = readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
  await oniguruma.loadWASM(wasm);
  const raw = parseRawGrammar(readFileSync(grammarFile, "utf8"), grammarFile);
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async (scope) => (scope === raw.scopeName ? raw : null),
  });
  const grammar = await registry.loadGrammar(raw.scopeName);
  const found = {};
  for (const file of files) {
    let state = INITIAL;
    found[file] = [];
    readFileSync(file, "utf8").split("\n").forEach((line, number) => {
      const { tokens, ruleStack, stoppedEarly } = grammar.tokenizeLine(line, state, 2000);
      if (stoppedEarly) throw new Error(`${file}:${number + 1}: the grammar takes too long`);
      state = ruleStack;
      for (const { startIndex, endIndex, scopes } of tokens) {
        found[file].push([number, startIndex, endIndex, scopes.slice(1)]);
      }
    });
  }
  process.stdout.write(JSON.stringify(found));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
