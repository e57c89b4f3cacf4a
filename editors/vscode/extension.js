// The extension: starts `gerules lsp`, and gives its commands names in the palette.
"use strict";

const os = require("node:os");
const path = require("node:path");
const vscode = require("vscode");
const { LanguageClient, State } = require("vscode-languageclient/node");

const LANGUAGES = ["gerules", "gerules-graph"];

/** The client that is running, or undefined. */
let client;
/** What the user sees of the server in the status bar. */
let status;

/** The path of a setting, with `${workspaceFolder}` and `~` replaced. */
function expanded(setting) {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  const text = setting.replaceAll("${workspaceFolder}", folder);
  return text.startsWith("~") ? path.join(os.homedir(), text.slice(1)) : text;
}

function makeClient() {
  const settings = vscode.workspace.getConfiguration("gerules");
  const run = {
    command: expanded(settings.get("server.path", "gerules")),
    args: settings.get("server.arguments", ["lsp"]),
  };
  return new LanguageClient("gerules", "gerules", { run, debug: run }, {
    documentSelector: LANGUAGES.map((language) => ({ language })),
    initializationOptions: { docs: settings.get("docs.url", "") },
  });
}

async function start() {
  client = makeClient();
  client.onDidChangeState(({ newState }) => show(newState));
  try {
    await client.start();
  } catch (error) {
    const answer = await vscode.window.showErrorMessage(
      `The language server of gerules does not start: ${error.message ?? error}. ` +
        'Install it with  pip install "gerules[editor]"  and say where it is.',
      "Open settings",
    );
    if (answer !== undefined) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "gerules.server.path");
    }
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running !== undefined && running.state !== State.Stopped) {
    await running.stop();
  }
}

function show(state) {
  const icon = { [State.Running]: "check", [State.Starting]: "loading~spin" }[state] ?? "error";
  status.text = `$(${icon}) gerules`;
  status.tooltip = {
    [State.Running]: "The language server of gerules is running. Click to restart it.",
    [State.Starting]: "The language server of gerules is starting.",
  }[state] ?? "The language server of gerules does not run. Click to start it.";
}

/** Run the tests of a file, or of one rule of it; what they find the server publishes itself. */
async function runTests(uri, rule) {
  try {
    await client?.sendRequest("workspace/executeCommand", {
      command: "gerules.runTests",
      arguments: rule === undefined ? [uri] : [uri, rule],
    });
  } catch (error) {
    vscode.window.showWarningMessage(`gerules: ${error.message}`);
  }
}

/** The name of the rule that the cursor stands in. */
function ruleAt(editor) {
  for (let line = editor.selection.active.line; line >= 0; line -= 1) {
    const found = /^rule\s+([\p{L}_][\p{L}\p{N}_]*)/u.exec(editor.document.lineAt(line).text);
    if (found !== null) {
      return found[1];
    }
  }
  return undefined;
}

async function runRuleTests() {
  const editor = vscode.window.activeTextEditor;
  const rule = editor === undefined ? undefined : ruleAt(editor);
  if (rule === undefined) {
    vscode.window.showInformationMessage("gerules: the cursor stands in no rule");
    return;
  }
  await runTests(editor.document.uri.toString(), rule);
}

async function runFileTests() {
  const editor = vscode.window.activeTextEditor;
  if (editor?.document.languageId === "gerules") {
    await runTests(editor.document.uri.toString());
  }
}

async function activate(context) {
  status = vscode.window.createStatusBarItem("gerules.status", vscode.StatusBarAlignment.Right);
  status.name = "gerules";
  status.command = "gerules.restart";
  show(State.Starting);
  status.show();
  const restart = async () => {
    await stop();
    await start();
  };
  context.subscriptions.push(
    status,
    vscode.commands.registerCommand("gerules.runFileTests", runFileTests),
    vscode.commands.registerCommand("gerules.runRuleTests", runRuleTests),
    vscode.commands.registerCommand("gerules.stopTests", () =>
      client?.sendRequest("workspace/executeCommand", { command: "gerules.cancelTests", arguments: [] }),
    ),
    vscode.commands.registerCommand("gerules.restart", restart),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("gerules.server") || event.affectsConfiguration("gerules.docs")) {
        await restart();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
