// Packs the extension into gerules.vsix: `npm ci && npm run package`. What is installed for tests stays out.
"use strict";

const { copyFileSync, rmSync } = require("node:fs");
const path = require("node:path");
const { createVSIX } = require("@vscode/vsce");

const LICENSE = path.join(__dirname, "LICENSE");

async function main() {
  copyFileSync(path.join(__dirname, "..", "..", "LICENSE"), LICENSE);
  try {
    await createVSIX({
      cwd: __dirname,
      packagePath: path.join(__dirname, "gerules.vsix"),
      allowMissingRepository: true,
      dependencies: true,
    });
  } finally {
    rmSync(LICENSE);
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
