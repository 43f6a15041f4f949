/** Rules for every page of the documentation. Each function returns one line for each violation. */
import { dirname, join, normalize } from "node:path";
import type { Page } from "./pages.ts";

const maxReadmeLines = 220;
const maxPageLines = 400;
/** Reference pages, which readers search instead of reading them from beginning to end. */
const maxReferenceLines = 600;
const maxProseColumns = 120;
const maxTableColumns = 160;
const maxFirstSentenceWords = 30;

/**
 * Relative links lead to an existing file, anchors to a heading, and external links are https.
 * @param pages every page, by which anchors are resolved
 * @param isFile whether a path from the root of the repository exists
 */
export function linkProblems(
  page: Page,
  pages: ReadonlyMap<string, Page>,
  isFile: (path: string) => boolean,
): string[] {
  return page.links.flatMap((link) => {
    const problem = linkProblem(link, page, pages, isFile);
    return problem === null ? [] : [`${page.path}: ${link}: ${problem}`];
  });
}

function linkProblem(
  link: string,
  page: Page,
  pages: ReadonlyMap<string, Page>,
  isFile: (path: string) => boolean,
): string | null {
  if (/^[a-z][a-z0-9+.-]*:/i.test(link) || link.startsWith("//")) return externalProblem(link);
  const [, workflow] = page.path === "README.md" ? (workflowLink.exec(link) ?? []) : [];
  if (workflow !== undefined)
    return isFile(`.github/workflows/${workflow}`) ? null : `there is no workflow ${workflow}`;
  if (link.startsWith("/")) return "expected a path relative to the page";
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? page.path : normalize(join(dirname(page.path), decodeURI(path)));
  if (target.startsWith("..")) return "leads out of the repository";
  if (!pages.has(target) && !isFile(target)) return `${target} does not exist`;
  if (anchor === undefined) return null;
  const linked = pages.get(target);
  if (linked === undefined) return null;
  return linked.anchors.has(decodeURIComponent(anchor)) ? null : `${target} has no such heading`;
}

/** On GitHub, this path leads from the README to a workflow and its badge, whatever account has the repository. */
const workflowLink = /^\.\.\/\.\.\/actions\/workflows\/([\w-]+\.yml)(?:\/badge\.svg)?$/;

/** `npm start` serves the playground at this address. */
export const localPlayground = "http://admin.localhost:8787/_headgate/playground";

/** Examples run on the reader's machine, so links to it do not use https. */
function externalProblem(link: string): string | null {
  if (/^http:\/\/localhost:\d+$/.test(link) || link.startsWith(localPlayground)) return null;
  if (!URL.canParse(link)) return "is not a URL";
  return new URL(link).protocol === "https:" ? null : "expected https";
}

/** Rules about the title, the first sentence, the length of the page and of its lines, and the pictures. */
export function formProblems(page: Page): string[] {
  return [...titleProblems(page), ...lengthProblems(page), ...pictureProblems(page)].map(
    (problem) => `${page.path}: ${problem}`,
  );
}

function titleProblems({ headings, firstSentence }: Page): string[] {
  const titles = headings.filter(({ depth }) => depth === 1);
  if (titles.length !== 1) return [`expected one heading of depth 1, got ${titles.length}`];
  if (firstSentence === "") return ["expected a paragraph after the title"];
  const words = firstSentence.split(/\s+/).length;
  return words <= maxFirstSentenceWords
    ? []
    : [`expected at most ${maxFirstSentenceWords} words in the first sentence, got ${words}`];
}

function lengthProblems({ path, text, proseLines }: Page): string[] {
  const count = text.replace(/\n$/, "").split("\n").length;
  const most = maxLines(path);
  const long = proseLines.filter((line) => columns(line.text) > maxColumns(line.text));
  return [
    ...(count > most ? [`expected at most ${most} lines, got ${count}`] : []),
    ...long.map((line) => `line ${line.number} has ${columns(line.text)} columns`),
  ];
}

function maxLines(path: string): number {
  if (path === "README.md") return maxReadmeLines;
  return /^docs\/(?:reference|operate)\//.test(path) ? maxReferenceLines : maxPageLines;
}

const columns = (line: string): number => Array.from(line).length;

function maxColumns(line: string): number {
  if (/^\s*\|/.test(line)) return maxTableColumns;
  // A single link or image cannot be broken across lines.
  return /^\s*(?:[-*] )?!?\[[^\]]*\]\(\S+\)\S*$/.test(line) ? Infinity : maxProseColumns;
}

/** Each picture has a light and a dark version, and a text for readers who cannot see it. */
function pictureProblems({ pictures }: Page): string[] {
  return pictures.flatMap((picture) => {
    const [, light = "", type = ""] = /<img\s[^>]*src="([^"]*)-light\.(svg|png)"/.exec(picture) ?? [];
    const [, alternative = ""] = /<img\s[^>]*alt="([^"]*)"/.exec(picture) ?? [];
    const source = `<source media="(prefers-color-scheme: dark)" srcset="${light}-dark.${type}"`;
    return [
      ...(light === "" ? ["expected an image whose name ends in -light.svg or -light.png"] : []),
      ...(picture.replace(/\s+/g, " ").includes(source) ? [] : [`expected ${source}>`]),
      ...(alternative === "" ? ["expected the text of the picture in alt"] : []),
    ];
  });
}

/** Every other file in the folders of the pages is shown or linked by a page. */
export function unusedFiles(pages: readonly Page[], files: readonly string[]): string[] {
  const linked = new Set(pages.flatMap(({ path, links }) => links.map((link) => normalize(join(dirname(path), link)))));
  return files.filter((file) => !linked.has(file));
}

/** Every page of the manual is linked from an index: the README, or a page that the README links for this purpose. */
export function indexProblems(indexes: readonly Page[], paths: readonly string[]): string[] {
  const linked = new Set(
    indexes.flatMap(({ path, links }) => links.map((link) => normalize(join(dirname(path), link.replace(/#.*/, ""))))),
  );
  return paths
    .filter((path) => path.startsWith("docs/") && !linked.has(path))
    .map((path) => `${path} is not linked from ${indexes.map((each) => each.path).join(" or ")}`);
}
