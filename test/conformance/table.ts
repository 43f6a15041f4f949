/**
 * `node test/conformance/table.ts` updates the links to tests in the table of this folder's README.md. Statements, and the
 * reasons for ids without a test, are written by hand.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { relative } from "node:path";
import { pathToFileURL } from "node:url";
import { filesOfTests } from "../files.ts";

export const page = "test/conformance/README.md";

export interface Row {
  readonly id: string;
  readonly statement: string;
  readonly source: string;
  /** Links to the tests of an id, or the reason why there are none. */
  readonly tests: string;
}

/** All ids, in the order of the table. */
export const ids: readonly string[] = Object.entries({
  H: 18,
  R: 16,
  C: 4,
  G: 13,
  K: 12,
  S: 12,
}).flatMap(([group, count]) =>
  Array.from({ length: count }, (_, index) => `${group}${String(index + 1).padStart(2, "0")}`),
);

const rowPattern = /^\| ([A-Z]\d\d) +\| (.*?) +\| (.*?) +\| (.*?) +\|$/gm;

export const rowsOf = (text: string): Row[] =>
  [...text.matchAll(rowPattern)].map(([, id = "", statement = "", source = "", tests = ""]) => ({
    id,
    statement,
    source,
    tests,
  }));

/** For each id, links from the page to the files with tests whose titles begin with the id. */
export function testsById(): ReadonlyMap<string, readonly string[]> {
  const links = new Map<string, string[]>();
  for (const path of filesOfTests(".test.ts")) {
    const file = relative("test", path);
    const text = readFileSync(path, "utf8");
    for (const id of new Set([...text.matchAll(/["`']([HRCGKS]\d\d): /g)].map(([, each]) => each))) {
      if (id === undefined) continue;
      const link = `[${file.replace(/(?:\.workerd|\.local)?\.test\.ts$/, "")}](${relative("test/conformance", path)})`;
      links.set(id, [...(links.get(id) ?? []), link]);
    }
  }
  return links;
}

/** The page with current links. Where an id has no test, its reason stays. */
export function updated(text: string): string {
  const links = testsById();
  return text.replaceAll(rowPattern, (_row, id: string, statement: string, source: string, tests: string) => {
    const cell = links.get(id)?.join(", ") ?? (tests.startsWith("[") ? "" : tests);
    return `| ${id} | ${statement} | ${source} | ${cell} |`;
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  writeFileSync(page, updated(readFileSync(page, "utf8")));
}
