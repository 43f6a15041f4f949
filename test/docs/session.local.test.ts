/**
 * A session reports failing commands and wrong output, keeps the shell's variables, and serves the latest
 * configuration.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type RecipeOrigin, startRecipeOrigin } from "../system/recipe-origin.ts";
import { parsePage } from "./pages.ts";
import { runSession } from "./session.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-session-"));
let origin: RecipeOrigin;
let served: (string | null)[] = [];

beforeAll(async () => {
  origin = await startRecipeOrigin();
  writeFileSync(join(folder, ".dev.vars"), 'CHECK_TOKENS="the-token"\nADMIN_TOKENS="the-admin-token"\n');
});

afterAll(() => {
  origin.close();
  rmSync(folder, { recursive: true, force: true });
});

async function play(...blocks: readonly (readonly [info: string, text: string])[]): Promise<string[]> {
  served = [];
  const text = blocks.map(([info, lines]) => `\`\`\`${info}\n${lines}\n\`\`\`\n`).join("\n");
  return runSession(
    parsePage("docs/a.md", text),
    {
      folder,
      port: 1234,
      serve: async (block) => void served.push(block?.text.trim() ?? null),
      close: async () => undefined,
    },
    origin,
  );
}

it("all commands of a page run in one shell, which has the tokens and the address of the server", async () => {
  const problems = await play(
    ["bash", 'A=5; echo "$TOKEN $ADMIN_TOKEN $(echo $USER_TOKEN | tr -cd .)"'],
    ["text", "the-token the-admin-token .."],
    ["bash", "cat; echo $A http://localhost:8787 > b; cat b"],
    ["text", "5 http://localhost:8787"],
    ["bash", "grep -c 1234 b; curl -s https://api.example.com"],
    ["text", "1\nHello from the origin."],
  );
  expect(problems).toEqual([]);
  expect(served).toEqual([null]);
});

it("each command runs with the last valid configuration above it on the page", async () => {
  await play(
    ["toml", 'LIMITS = "1/s"'],
    ["bash", "true"],
    ["toml invalid", 'LIMITS = "1/x"'],
    ["text", "LIMITS…"],
    ["toml other", "a = 1"],
    ["toml", '[env.staging.vars]\nLIMITS = "3/s"'],
    ["bash", "true"],
    ["toml", 'LIMITS = "2/s"'],
    ["toml", 'LIMITS = "3/s"'],
    ["bash", "true"],
  );
  expect(served).toEqual(['LIMITS = "1/s"', 'LIMITS = "3/s"']);
});

it("output that differs from the page is reported with its line number", async () => {
  const problems = await play(["bash", "echo one"], ["text", "two"], ["bash", "echo 3"], ["json", "4"]);
  expect(problems).toEqual(["docs/a.md:5: shown:\n  two\nprinted:\n  one", "docs/a.md:13: shown:\n  4\nprinted:\n  3"]);
});

it("a failing command ends the session and is reported with everything printed", async () => {
  const problems = await play(["bash", "echo one\nls absent\necho two"], ["bash", "echo three"], ["text", "4"]);
  expect(problems).toEqual([expect.stringMatching(/^docs\/a\.md:1: failed:\none\nls: .*absent.*\n$/)]);
});

it("an unset variable is reported", async () => {
  expect(await play(["bash", 'echo "$UNSET"'])).toEqual([expect.stringContaining("UNSET")]);
});
