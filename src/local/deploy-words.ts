/** The options of `wrangler deploy` that decide what is deployed. All others go to wrangler unread. */
import { parseArgs } from "node:util";
import { CommandError, type Options } from "./command.ts";
import { type SourceValues, sourceOptions } from "./source.ts";

export const deployOptions = {
  ...sourceOptions,
  var: {
    type: "string",
    multiple: true,
    value: "NAME:value",
    about: "A variable, in place of the one in the file.",
  },
  "secrets-file": {
    type: "string",
    value: "file",
    about: "Secrets to upload with the deployment.",
  },
  "dry-run": { type: "boolean", about: "Build and check, without deploying." },
} as const satisfies Options;

const single = ["config", "env", "secrets-file"] as const;

/** @throws CommandError for what the check and wrangler would read differently */
export function readDeployWords(words: readonly string[]): SourceValues {
  const values: { -readonly [Name in keyof SourceValues]: SourceValues[Name] } = {};
  const pairs: string[] = [];
  let isAfterVar = false;
  for (const token of tokensOf(words)) {
    if (token.kind === "positional") {
      // wrangler takes every word after `--var` for a variable, up to the next option.
      if (isAfterVar) pairs.push(token.value);
      continue;
    }
    isAfterVar = token.kind === "option" && token.name === "var";
    if (token.kind !== "option") continue;
    if (token.name === "cwd") {
      throw new CommandError("--cwd is not accepted: run the command in that folder.");
    }
    const name = single.find((each) => each === token.name);
    if (name === undefined && !isAfterVar) continue;
    if (token.value === undefined) throw new CommandError(`${token.rawName} needs a value.`);
    if (name === undefined) pairs.push(token.value);
    else values[name] = token.value;
  }
  return { ...values, var: pairs };
}

// oxlint-disable-next-line typescript/explicit-function-return-type -- the tokens of Node's parser have no named type
function tokensOf(words: readonly string[]) {
  // wrangler accepts `--secretsFile` for `--secrets-file`.
  const dashed = words.map((word) => word.replace(/^--secretsFile(?==|$)/, () => "--secrets-file"));
  return parseArgs({ args: dashed, options: deployOptions, strict: false, tokens: true }).tokens;
}
