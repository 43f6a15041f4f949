/**
 * `node test/conformance/table.ts` writes into the table of this folder's README.md which tests are named by each id. The
 * statements, and the reasons of those that have no test, are written there by hand.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";

export const page = "test/conformance/README.md";

export interface Row {
  readonly id: string;
  readonly statement: string;
  readonly source: string;
  /** Links to tests, or the reason why there is none. */
  readonly tests: string;
}

/** Every id of the list. */
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

/** The files with tests named by an id, as links from the page, by the ids. */
export function testsById(): ReadonlyMap<string, readonly string[]> {
  const links = new Map<string, string[]>();
  const files = readdirSync("test", { recursive: true, encoding: "utf8" });
  for (const file of files.filter((each) => each.endsWith(".test.ts")).toSorted()) {
    const text = readFileSync(join("test", file), "utf8");
    for (const id of new Set(
      [...text.matchAll(/["`']([HRCGKS]\d\d): /g)].map(([, each]) => each),
    )) {
      if (id === undefined) continue;
      const link = `[${file.replace(/(?:\.workerd|\.local)?\.test\.ts$/, "")}](${relative("test/conformance", join("test", file))})`;
      links.set(id, [...(links.get(id) ?? []), link]);
    }
  }
  return links;
}

/** The page with the links of today; a reason stays where there is no test. */
export function updated(text: string): string {
  const links = testsById();
  return text.replaceAll(
    rowPattern,
    (_row, id: string, statement: string, source: string, tests: string) => {
      const told = links.get(id)?.join(", ") ?? (tests.startsWith("[") ? "" : tests);
      return `| ${id} | ${statement} | ${source} | ${told} |`;
    },
  );
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  writeFileSync(page, updated(readFileSync(page, "utf8")));
}
