/** Links, titles and line lengths of every page, and the rules themselves, tested on made-up pages. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { formProblems, indexProblems, linkProblems, localPlayground, unusedFiles } from "./page-rules.ts";
import { type Page, parsePage, readPage, readPages, rowsOf } from "./pages.ts";
import { examplesPage } from "./worker-examples.ts";

const pages = readPages();
const pageByPath = new Map(pages.map((page) => [page.path, page]));
const formed = pages.filter(({ path }) => path !== "CHANGELOG.md");

describe("the documentation", () => {
  it("every link of every page leads to an existing file and heading, or to an https URL", () => {
    const problems = pages.flatMap((page) => linkProblems(page, pageByPath, existsSync));
    expect(problems).toEqual([]);
  });

  it("the README links every page of the manual, except examples and commands, which pages of their own list", () => {
    const paths = pages.map(({ path }) => path);
    expect(paths.length).toBeGreaterThan(40);
    const indexes = ["README.md", examplesPage, "docs/reference/command-line.md"];
    expect(indexProblems(indexes.map(readPage), paths)).toEqual([]);
  });

  it("every picture and file of the manual is shown or linked by a page", () => {
    const files = readdirSync("docs", { recursive: true, encoding: "utf8" })
      .filter((path) => /\.(?!md$)\w+$/.test(path) && !path.includes("/.wrangler"))
      .map((path) => join("docs", path));
    expect(files.length).toBeGreaterThan(0);
    expect(unusedFiles(pages, files)).toEqual([]);
  });

  it("every page has one title, a short first sentence, and lines of limited length", () => {
    expect(formed.flatMap(formProblems)).toEqual([]);
  });
});

const made = (...lines: readonly string[]): Page => parsePage("docs/a.md", lines.join("\n"));
const good = parsePage(
  "docs/b.md",
  ["# Limit by key", "", "Set `KEY`. Then deploy.", "", "## Use `ip` & more"].join("\n"),
);

describe("the reader of pages", () => {
  it("reading a page gives its title, first sentence, headings with GitHub's slugs, and blocks with line numbers", () => {
    const page = made("# A", "", "One.", "", "```toml invalid", "x = 1", "```", "", "- b", "  ```sh", "  y", "  ```");
    expect(page).toMatchObject({ title: "A", firstSentence: "One." });
    expect(page.blocks).toEqual([
      { page: "docs/a.md", language: "toml", info: ["invalid"], text: "x = 1\n", line: 5 },
      { page: "docs/a.md", language: "sh", info: [], text: "y\n", line: 10 },
    ]);
    expect(page.proseLines.map(({ number }) => number)).toEqual([1, 2, 3, 4, 8, 9]);
    expect(good.headings[1]).toMatchObject({ text: "Use ip & more", slug: "use-ip--more" });
  });

  it("reading the tables of a page gives their headings, columns and cells", () => {
    const page = made("# A", "", "| a | b |", "| - | - |", "| `c` | d \\| e |");
    const { tables } = page;
    expect(tables).toEqual([{ heading: "A", columns: ["a", "b"], rows: [["`c`", "d | e"]] }]);
    expect(rowsOf(page, "a")).toEqual(tables[0]?.rows);
    expect(() => rowsOf(page, "b")).toThrow("docs/a.md has no table of b");
  });

  it("the links of a page include images and the sources of pictures, but no links in code", () => {
    const page = made(
      '<picture><source srcset="d.svg"><img src="e.svg"></picture>',
      "",
      "[f](f.md) ![g](g.svg) `[h](h.md)` [i][]",
      "",
      "[i]: https://i.example",
    );
    expect(page.links.toSorted()).toEqual(["d.svg", "e.svg", "f.md", "g.svg", "https://i.example"]);
  });
});

const dark = '<source media="(prefers-color-scheme: dark)" srcset="a-dark.svg">';

describe("the rules for pages", () => {
  const problemsOf = (page: Page): string[] =>
    linkProblems(page, new Map([page, good].map((each) => [each.path, each])), (path) =>
      ["docs/c.svg", "LICENSE"].includes(path),
    );

  it("links to existing pages, files and headings cause no problem", () => {
    const links = `[b](b.md#use-ip--more) ![c](c.svg) [A](#a) [x](https://x.example) [l](../LICENSE) [p](${localPlayground}?limit=1/1s)`;
    expect(problemsOf(made("# A", "", links))).toEqual([]);
  });

  it.each([
    ["[x](x.md)", "docs/a.md: x.md: docs/x.md does not exist"],
    ["![x](x.svg)", "docs/a.md: x.svg: docs/x.svg does not exist"],
    ['<picture><source srcset="x.svg"></picture>', "docs/a.md: x.svg: docs/x.svg does not exist"],
    ["[b](b.md#x)", "docs/a.md: b.md#x: docs/b.md has no such heading"],
    ["[A](#x)", "docs/a.md: #x: docs/a.md has no such heading"],
    ["[x](../../x.md)", "docs/a.md: ../../x.md: leads out of the repository"],
    ["[x](/x.md)", "docs/a.md: /x.md: expected a path relative to the page"],
    ["[x](http://x.example)", "docs/a.md: http://x.example: expected https"],
    ["[x](https://)", "docs/a.md: https://: is not a URL"],
    ["[x](../../actions/workflows/ci.yml)", "docs/a.md: ../../actions/workflows/ci.yml: leads out of the repository"],
  ])("the rules report the link %s", (line, problem) => {
    expect(problemsOf(made("# A", "", line))).toEqual([problem]);
  });

  it("the badge of a workflow in the README needs a workflow of that name", () => {
    const badge = (name: string): string => `../../actions/workflows/${name}/badge.svg`;
    const page = parsePage("README.md", `![a](${badge("ci.yml")}) ![b](${badge("other.yml")})`);
    const problems = linkProblems(page, new Map(), (path) => path === ".github/workflows/ci.yml");
    expect(problems).toEqual([`README.md: ${badge("other.yml")}: there is no workflow other.yml`]);
  });

  it.each<[string, string[], string]>([
    ["without a title", ["No title."], "expected one heading of depth 1, got 0"],
    ["with two titles", ["# A", "", "# B"], "expected one heading of depth 1, got 2"],
    ["that begins with a list", ["# A", "", "- b"], "expected a paragraph after the title"],
    [
      "with a long first sentence",
      ["# A", "", `${"a\n".repeat(31)}b. C.`],
      "expected at most 30 words in the first sentence, got 32",
    ],
    ["with a long line", ["# A", "", "One.", "", "x ".repeat(61)], "line 5 has 122 columns"],
    ["with a wide table", ["# A", "", "B.", "", `| ${"x".repeat(160)} |`], "line 5 has 164 columns"],
    [
      "of many lines",
      ["# A", "", "One.", "", ...Array.from({ length: 400 }, () => "x")],
      "expected at most 400 lines, got 404",
    ],
  ])("the rules report a page %s", (_, lines, problem) => {
    expect(formProblems(made(...lines))).toEqual([`docs/a.md: ${problem}`]);
  });

  it.each([
    ["without a dark one", '<img alt="a" src="a-light.svg">', 1],
    ["of another dark one", `${dark.replace("a-dark", "b-dark")}<img alt="a" src="a-light.svg">`, 1],
    ["without a text", `${dark}<img alt="" src="a-light.svg">`, 1],
    ["without an image", dark, 3],
    ["in light and dark with a text", `${dark}<img alt="a" src="a-light.svg">`, 0],
  ])("a picture %s has the expected number of problems", (_, html, count) => {
    const page = made("# A", "", "One.", "", `<picture>${html}</picture>`);
    expect(formProblems(page)).toHaveLength(count);
  });

  it("a file that no page links is reported", () => {
    const page = made("# A", "", "![b](b.svg)");
    expect(unusedFiles([page], ["docs/b.svg", "docs/c.svg"])).toEqual(["docs/c.svg"]);
  });

  it("long code, tables up to 160 columns and unbreakable links are accepted", () => {
    const link = `[x](https://x.example/${"x".repeat(120)})`;
    const page = made("# A", "", "One.", "", "```", "x".repeat(200), "```", "", `| ${"x".repeat(150)} |`, "", link);
    expect(formProblems(page)).toEqual([]);
  });

  it("a page of the manual that the README does not link is reported", () => {
    const index = parsePage("README.md", "[b](docs/b.md)");
    const list = parsePage("docs/d/README.md", "[e](e/README.md)");
    const paths = ["README.md", "docs/b.md", "docs/c.md", "docs/d/e/README.md"];
    expect(indexProblems([index, list], paths)).toEqual(["docs/c.md is not linked from README.md or docs/d/README.md"]);
  });
});
