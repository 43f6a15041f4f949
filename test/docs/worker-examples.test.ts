/** The examples are small and complete, and start with one command. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parsePage, readPage } from "./pages.ts";
import { exampleNamed, exampleNames, examplesFolder, examplesPage, readExample } from "./worker-examples.ts";

const linesOf = (path: string): number => readFileSync(path, "utf8").trimEnd().split("\n").length;

it("there are five examples, and the list of examples links each by the name of its folder", () => {
  expect(exampleNames()).toHaveLength(5);
  const linked = readPage(examplesPage).links.filter((link) => link.endsWith("/README.md"));
  expect(linked.toSorted()).toEqual(exampleNames().map((name) => `${name}/README.md`));
});

it.each(exampleNames())("the example %s has under 60 lines, and a README of at most ten", (name) => {
  const folder = join(examplesFolder, name);
  const sources = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !path.includes(".wrangler/"))
    .map((path) => join(folder, path));
  // The example of the proxy has no source file, because Headgate itself is the proxy.
  expect(sources).toEqual(name === "proxy-with-plans" ? [] : [join(folder, "src/index.ts")]);
  const files = [...sources, join(folder, "wrangler.toml")];
  expect(files.filter((file) => linesOf(file) >= 60)).toEqual([]);
  expect(linesOf(join(folder, "README.md"))).toBeLessThanOrEqual(10);
});

it.each(exampleNames())("the example %s imports only what a reader can install", (name) => {
  const source = join(examplesFolder, name, "src/index.ts");
  const code = existsSync(source) ? readFileSync(source, "utf8") : "";
  const modules = [...code.matchAll(/ from "([^"]+)"/g)].map(([, module = ""]) => module);
  const { exports } = JSON.parse(readFileSync("package.json", "utf8")) as { exports: object };
  const subpaths = Object.keys(exports).map((path) => path.replace(".", "headgate"));
  const known = new Set([...subpaths, "hono", "hono/streaming", "cloudflare:workers"]);
  expect(modules.filter((module) => !known.has(module))).toEqual([]);
});

it.each(exampleNames())("the README of %s starts it with one command, then uses it", (name) => {
  const { start, commands } = exampleNamed(name);
  expect(start).toBe(`npm run example -- ${name}`);
  expect(commands.length).toBeGreaterThan(1);
});

it("the reader of examples separates commands from their output, and rejects a command without output", () => {
  const read = (...lines: string[]): unknown =>
    readExample(parsePage("a.md", ["```bash example", ...lines, "```"].join("\n")));
  expect(read("npm start", "echo '#' # a", "echo b # soon: b")).toEqual({
    start: "npm start",
    commands: [
      { command: "echo '#'", shown: "a", isLater: false },
      { command: "echo b", shown: "b", isLater: true },
    ],
  });
  expect(() => read("npm start", "echo b")).toThrow('expected "command # output", got "echo b"');
  expect(() => readExample(parsePage("a.md", "# A"))).toThrow("a.md: expected one example");
});
