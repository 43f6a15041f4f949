/** The commands and the map of the source tree in CONTRIBUTING.md are complete. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { readPage } from "./pages.ts";

const { blocks, tables, text } = readPage("CONTRIBUTING.md");

it("CONTRIBUTING.md lists every npm script and no other", () => {
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: object };
  const commands = tables.find(({ columns }) => columns[0] === "command")?.rows ?? [];
  const named = commands.flatMap(([command = ""]) => /npm (?:run )?([a-z][a-z:-]*)/.exec(command)?.[1] ?? []);
  // Npm runs `prepack` itself.
  const written = Object.keys(scripts).filter((name) => name !== "prepack");
  expect(named.filter((name) => name !== "ci").toSorted()).toEqual(written.toSorted());
});

it("CONTRIBUTING.md lists every folder of src and no other", () => {
  const figure = blocks.find(({ language }) => language === "text")?.text ?? "";
  const [, map = ""] = /^src\/\n((?: .*\n)+)/.exec(figure) ?? [];
  const drawn = [...map.matchAll(/^ {2}([a-z]+)\//gm)].map(([, name = ""]) => name);
  const folders = readdirSync("src", { withFileTypes: true }).filter((entry) => entry.isDirectory());
  expect(drawn.toSorted()).toEqual(folders.map(({ name }) => name).toSorted());
});

it("every file and folder that CONTRIBUTING.md names exists", () => {
  const paths = [...text.matchAll(/`((?:src|test|docs)(?:\/[\w./-]+)?)`/g)].map(([, path = ""]) => path);
  expect(paths.length).toBeGreaterThan(20);
  expect(paths.filter((path) => !existsSync(path))).toEqual([]);
});
