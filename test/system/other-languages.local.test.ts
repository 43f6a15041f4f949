/** The clients in docs/how-to/from-other-languages.md, run by the real programs against a real Headgate. */
import { execFile, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";
import { freePort } from "./checkout.ts";
import { startUselessServers, type UselessServers } from "./useless-servers.ts";
import { pageBlock } from "../docs/page-block.ts";

const page = "how-to/from-other-languages";
const folder = mkdtempSync(join(tmpdir(), "headgate-languages-"));
const token = "the-tests-token";

const clients = [
  { program: "python3", shown: pageBlock(page, "python"), failOpen: "FAIL_OPEN = True" },
  { program: "go", shown: pageBlock(page, "go"), failOpen: "failOpen = true" },
  { program: "ruby", shown: pageBlock(page, "ruby"), failOpen: "FAIL_OPEN = true" },
  { program: "php", shown: pageBlock(page, "php"), failOpen: "FAIL_OPEN = true" },
  { program: "sh", shown: pageBlock(page, "sh"), failOpen: "fail_open=true" },
] as const;

const isInstalled = (program: string): boolean => spawnSync("sh", ["-c", `command -v ${program}`]).status === 0;

/** Go keeps its files in the test's folder. */
const env = {
  ...process.env,
  HOME: folder,
  GOPATH: join(folder, "go"),
  GOCACHE: join(folder, "go-cache"),
  GO111MODULE: "off",
};

let workerd: Workerd;
let useless: UselessServers;

beforeAll(async () => {
  workerd = await startWorkerd(join(folder, "workerd"), {
    CHECK_TOKENS: token,
    POLICIES: JSON.stringify([
      {
        name: "api",
        key: "header:X-Api-Key",
        limits: "2/hour",
        strategy: "fixed-window",
        deny: ["blocked"],
      },
    ]),
  });
  useless = await startUselessServers();
});

afterAll(async () => {
  useless.close();
  await workerd.close();
  // Go's module cache is read-only.
  rmSync(folder, { recursive: true, force: true });
});

/** Whether the client allows or denies when it gets no decision. */
type Mode = "open" | "closed";

interface Run {
  readonly exitCode: number;
  readonly printed: string;
  readonly errors: string;
}

/** Runs a program to its end. */
function run(words: readonly string[], variables: Readonly<Record<string, string>>): Promise<Run> {
  const [program = "", ...args] = words;
  const { promise, resolve } = Promise.withResolvers<Run>();
  execFile(program, args, { env: { ...env, ...variables } }, (error, stdout, stderr) => {
    resolve({ exitCode: Number(error?.code ?? 0), printed: stdout.trim(), errors: stderr });
  });
  return promise;
}

for (const { program, shown, failOpen } of clients) {
  describe.skipIf(!isInstalled(program))(`the client for ${program}, skipped unless installed`, () => {
    const commands = new Map<Mode, readonly string[]>();

    beforeAll(() => {
      expect(shown).toContain(failOpen);
      const failClosed = failOpen.replace("True", "False").replace("true", "false");
      commands.set("open", writeClient("open", shown));
      commands.set("closed", writeClient("closed", shown.replace(failOpen, failClosed)));
    });

    /**
     * Writes a client into its own folder, and compiles it if it is in Go.
     * @returns the command that runs it
     */
    function writeClient(mode: Mode, text: string): readonly string[] {
      const path = join(folder, program, mode, program === "go" ? "client.go" : "client");
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
      if (program !== "go") return [program, path];
      const binary = join(dirname(path), "binary");
      const words = ["build", "-o", binary, path];
      const { status, stderr } = spawnSync("go", words, { env, encoding: "utf8" });
      expect([status, stderr]).toEqual([0, ""]);
      return [binary];
    }

    const check = (key: string, variables: Readonly<Record<string, string>> = {}, mode: Mode = "open"): Promise<Run> =>
      run([...(commands.get(mode) ?? []), key], {
        HEADGATE_URL: new URL("/check", workerd.url).href,
        HEADGATE_TOKEN: token,
        ...variables,
      });

    it("the documented client is allowed up to the limit, and then prints the wait", async () => {
      expect([await check(program), await check(program)]).toEqual([
        { exitCode: 0, printed: "allowed", errors: "" },
        { exitCode: 0, printed: "allowed", errors: "" },
      ]);
      const denied = await check(program);
      expect([denied.exitCode, denied.errors]).toEqual([1, ""]);
      const [, seconds] = /^denied, retry in (\d+) s$/.exec(denied.printed) ?? [];
      expect(Number(seconds)).toBeGreaterThan(3_500);
    });

    it("the documented client prints no wait when waiting does not help", async () => {
      expect(await check("blocked")).toEqual({ exitCode: 1, printed: "denied", errors: "" });
    });

    it("the documented client charges a key with quotation marks, backslashes and other characters unchanged", async () => {
      const key = `${program} "quoted" \\ back 'slash' é`;
      expect((await check(key)).printed).toBe("allowed");
      const url = new URL(`/check?key=${encodeURIComponent(key)}`, workerd.url);
      const look = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
      expect(await look.json()).toMatchObject({ limits: [{ remaining: 1 }] });
    });

    // The shell client reads only the status.
    it.runIf(program !== "sh").for(["<html>", '{"status":"ok"}', "null", "[]", '"text"', ""])(
      "the client makes no decision from another server's answer: %s",
      async (answer) => {
        const HEADGATE_URL = `http://127.0.0.1:${useless.otherPort}/${encodeURIComponent(answer)}`;
        const open = await check("k", { HEADGATE_URL });
        expect([open.exitCode, open.printed]).toEqual([0, "allowed"]);
        expect(open.errors).toContain("no decision: ");
      },
    );

    it.for([
      ["its token is wrong", { HEADGATE_TOKEN: "wrong" }, /no decision: .*401/],
      ["Headgate is stopped", "stopped", /no decision: /],
      ["Headgate does not answer", "silent", /no decision: /],
    ] as const)(
      "the client fails open or, when so configured, closed, and logs the reason, while %s",
      async ([, change, reason]) => {
        const port = change === "stopped" ? await freePort() : useless.silentPort;
        const variables = typeof change === "string" ? { HEADGATE_URL: `http://127.0.0.1:${port}/check` } : change;
        const startedAtMs = Date.now();
        const [open, closed] = await Promise.all([check("k", variables), check("k", variables, "closed")]);
        expect(Date.now() - startedAtMs).toBeLessThan(10_000);
        expect([open.exitCode, open.printed]).toEqual([0, "allowed"]);
        expect([closed.exitCode, closed.printed]).toEqual([1, "denied, retry in 1 s"]);
        expect(open.errors).toMatch(reason);
        expect(closed.errors).toMatch(reason);
      },
    );
  });
}
