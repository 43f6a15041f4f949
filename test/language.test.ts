/**
 * A check of comments, test titles and documentation for the most frequent patterns of wording that must be read twice.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { pagePaths } from "./docs/pages.ts";
import { filesOfTests } from "./files.ts";

/** Sentences without a clear subject, vague verbs, and phrases that must be read twice. Questions are accepted. */
const patterns = [
  /(?:^|[.!?:]\s+)(?:Of|Who|What|Whoever|Whose|Nobody|So long|Told)\s(?![^.!:]*\?)/,
  /\b(?:told|tells|whoever|be it|as one that|all the same)\b/i,
];

interface Text {
  readonly place: string;
  readonly text: string;
}

const filesBelow = (folder: string, suffix: RegExp): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((path) => join(folder, path))
    .filter((path) => suffix.test(path));

const ofTests = (suffix: string): string[] =>
  filesOfTests(suffix).filter((path) => !path.startsWith("test/previous-version/"));

const sources = [...filesBelow("src", /\.tsx?$/), ...ofTests(".ts")].filter((path) => path !== "test/language.test.ts");
const pages = [...ofTests(".md"), ...pagePaths()];

const title = /(?:\b(?:it|test|describe)(?:\.\w+)*\(|\btestEach\([^"'`]*|\)\()\s*(["'`])((?:(?!\1)[^\\]|\\.)+)\1/g;

/** Comments as running text, without their comment marks. */
function commentsOf(path: string, code: string): Text[] {
  const blocks = code.match(/\/\*\*[\s\S]*?\*\/|(?:^[ \t]*\/\/.*\n?)+|[;,{)] \/\/ .*$/gm) ?? [];
  return blocks.map((block) => ({
    place: path,
    text: block
      .replace(/^.*?(?:\/\*\*|\/\/)|\*\/$|^\s*(?:\*|\/\/)/gm, " ")
      .replace(/@\w+( \w+)?/g, ".")
      .replace(/\s+/g, " ")
      .trim(),
  }));
}

const titlesOf = (path: string, code: string): Text[] =>
  [...code.matchAll(title)].map(([, , text = ""]) => ({
    place: path,
    text: text.charAt(0).toUpperCase() + text.slice(1),
  }));

/** Paragraphs, list items, table rows and headings, without fenced code. */
const paragraphsOf = (path: string, page: string): Text[] =>
  page
    .replace(/```[\s\S]*?```/g, "")
    .split(/\n(?=\s*\n|\s*[-*#>|\d])/)
    .map((text) => ({ place: path, text: text.replace(/^[\s#>*|-]+/, "").replace(/\s+/g, " ") }));

const violations = (texts: readonly Text[]): string[] =>
  texts
    .filter(({ text }) => patterns.some((pattern) => pattern.test(text)))
    .map(({ place, text }) => `${place}: ${text}`);

const codes = sources.map((path) => ({ path, code: readFileSync(path, "utf8") }));

it("the check of wording finds comments, titles and paragraphs, and the faults in them", () => {
  const code = `/** Of nothing nobody is asked. */\nit("tells what is told", () => 0);\nconst a = 1; // Who asks\n`;
  expect(violations([...commentsOf("a.ts", code), ...titlesOf("a.ts", code)])).toHaveLength(3);
  expect(violations(paragraphsOf("a.md", "# Who is charged\n\nWhat is charged? The key is.\n"))).toHaveLength(1);
});

it("comments name their subject and use the usual technical verbs", () => {
  expect(violations(codes.flatMap(({ path, code }) => commentsOf(path, code)))).toEqual([]);
});

it("test titles name their subject and use the usual technical verbs", () => {
  const titles = codes.filter(({ path }) => path.startsWith("test/")).flatMap(({ path, code }) => titlesOf(path, code));
  expect(titles.length).toBeGreaterThan(500);
  expect(violations(titles)).toEqual([]);
});

it("documentation names its subject and uses the usual technical verbs", () => {
  const paragraphs = pages.flatMap((path) => paragraphsOf(path, readFileSync(path, "utf8")));
  expect(violations(paragraphs)).toEqual([]);
});
