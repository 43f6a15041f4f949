/** Commands that need an account or take long exist in wrangler and package.json, with the options that pages show. */
import { describe, expect, it } from "vitest";
import { commandProblems, commandsIn, isCheckedCommand } from "./commands.ts";
import { readPages } from "./pages.ts";

it("every documented command that no test runs exists, with its options and arguments", () => {
  const problems = readPages()
    .flatMap(({ blocks }) => blocks.filter(isCheckedCommand))
    .flatMap(({ page, line, text }) => commandProblems(text).map((problem) => `${page}:${line}: ${problem}`));
  expect(problems).toEqual([]);
});

describe("the check of commands", () => {
  it("a script is split into commands without comments, assignments, redirections and quotation marks", () => {
    const script = `# a comment\nA=1 printf '%s' "b c" | npx wrangler \\\n  secret put X > /dev/null && cd a; ls # b\n`;
    expect(commandsIn(script)).toEqual([
      ["printf", "%s", "b c"],
      ["npx", "wrangler", "secret", "put", "X"],
      ["cd", "a"],
      ["ls"],
    ]);
  });

  it.each([
    "npm ci && npm start",
    "npm test",
    "npm run deploy -- --env=staging --var LOG_DENIALS:true",
    "npm start -- --port=8788 -e staging",
    "npm run check-config -- --secrets-file prod.json",
    "npm run explain -- --policy login --key 203.0.113.7",
    "npm run bench -- cost --write",
    "npm run bench -- fuzz --help",
    "npx wrangler secret put KEY_SECRET --env staging",
    "npx wrangler secret list -e staging",
    "npx wrangler rollback 00000000-0000-0000-0000-000000000000 --message 'worse' -y",
    "npx wrangler tail --format json",
    "npx wrangler versions list --json",
    "npx wrangler versions deploy a@90 b@10 --yes",
    "npx vitest",
  ])("the check accepts the existing command %s", (script) => {
    expect(commandProblems(script)).toEqual([]);
  });

  it.each([
    ["npm run load", "package.json has no script load"],
    ["npm deploy", "expected npm run deploy"],
    ["npm run bench -- speed", "unknown name speed"],
    ["npm run bench -- cost --port 1", "no option --port"],
    ["npm start -- --secrets-file x", "no option --secrets-file"],
    ["npm test -- --ui", "no option --ui"],
    ["npm run deploy -- --dry", "deploy has no option --dry"],
    ["npx wrangler secret set X", "wrangler has no such command"],
    ["npx wrangler secrets put X", "wrangler has no such command"],
    ["npx wrangler secret put X --secret=y", "secret put has no option --secret"],
    ["npx wrangler tail --format yaml", "--format does not accept yaml"],
    ["npx wrangler tail a b", "expected at most 1 arguments, got 2"],
    ["npx wrangler tail --search", "--search needs a value"],
    ["npx eslint", "unknown program eslint"],
    ["deploy", "unknown program deploy"],
  ])("the check reports the command %s", (script, problem) => {
    expect(commandProblems(script)).toEqual([`${script}: ${problem}`]);
  });
});
