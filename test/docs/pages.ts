/** Reads the pages of the documentation: title, headings, links and fenced blocks. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import GithubSlugger from "github-slugger";
import { lexer, type Token, type Tokens, walkTokens } from "marked";

export interface Block {
  /** The path of the page. */
  readonly page: string;
  /** The first word after the fence, in lower case; empty if there is none. */
  readonly language: string;
  /** The other words after the fence, such as `invalid`. */
  readonly info: readonly string[];
  readonly text: string;
  /** The line of the opening fence, counted from 1. */
  readonly line: number;
}

/** The language of a block and the words after it, such as `toml invalid`. */
export const infoOf = ({ language, info }: Block): string => [language, ...info].join(" ");

export interface Heading {
  readonly depth: number;
  readonly text: string;
  /** The anchor that GitHub gives the heading. */
  readonly slug: string;
}

export interface Table {
  /** The text of the heading above the table. */
  readonly heading: string;
  readonly columns: readonly string[];
  /** The cells of each row, in Markdown. */
  readonly rows: readonly (readonly string[])[];
}

export interface Page {
  readonly path: string;
  readonly text: string;
  /** The text of the first heading of depth 1; empty if there is none. */
  readonly title: string;
  /** The first sentence of the paragraph that follows the title; empty if something else follows it. */
  readonly firstSentence: string;
  readonly headings: readonly Heading[];
  /** The slugs of headings, and the ids of HTML elements. */
  readonly anchors: ReadonlySet<string>;
  /** The `<picture>` elements in HTML. */
  readonly pictures: readonly string[];
  /** The targets of links, and the sources of images and `<picture>` elements. */
  readonly links: readonly string[];
  readonly blocks: readonly Block[];
  readonly tables: readonly Table[];
  /** Lines outside of fenced blocks, with their numbers from 1. */
  readonly proseLines: readonly ProseLine[];
}

export interface ProseLine {
  readonly number: number;
  readonly text: string;
}

const projectPages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

/** The paths of all existing pages, relative to the root of the repository. */
export function pagePaths(): string[] {
  const manual = existsSync("docs")
    ? readdirSync("docs", { recursive: true, encoding: "utf8" })
        .filter((path) => path.endsWith(".md"))
        .map((path) => join("docs", path))
    : [];
  return [...projectPages.filter((path) => existsSync(path)), ...manual.toSorted()];
}

export const readPage = (path: string): Page => parsePage(path, readFileSync(path, "utf8"));

export const readPages = (): Page[] => pagePaths().map(readPage);

export function parsePage(path: string, text: string): Page {
  const tokens = lexer(text);
  const all: Token[] = [];
  void walkTokens(tokens, (token) => void all.push(token));
  const headings = headingsOf(all);
  return {
    path,
    text,
    title: headings.find(({ depth }) => depth === 1)?.text ?? "",
    firstSentence: firstSentenceOf(tokens),
    headings,
    anchors: new Set([...headings.map(({ slug }) => slug), ...attributesOf(all, /(?:id|name)/)]),
    links: [
      ...all.flatMap((token) => (token.type === "link" || token.type === "image" ? hrefOf(token) : [])),
      ...attributesOf(all, /(?:href|src|srcset)/),
    ],
    pictures: text.match(/<picture>[^]*?<\/picture>/g) ?? [],
    blocks: blocksOf(path, text, all),
    tables: tablesOf(all),
    proseLines: linesOf(text).filter(({ isProse }) => isProse),
  };
}

/** A definition such as `[ref]: https://…` is resolved by the links that use it. */
const hrefOf = (token: Token): string[] => ("href" in token && typeof token.href === "string" ? [token.href] : []);

function headingsOf(tokens: readonly Token[]): Heading[] {
  const slugger = new GithubSlugger();
  return tokens.flatMap((token) => {
    if (token.type !== "heading") return [];
    const text = plainText(token);
    return [{ depth: Number(token["depth"]), text, slug: slugger.slug(text) }];
  });
}

/** The text as a reader sees it, without the marks of code, emphasis and links. */
function plainText(token: Token): string {
  if (!("tokens" in token) || token.tokens === undefined) {
    return token.type === "html" ? "" : unescaped("text" in token ? String(token.text) : "");
  }
  return token.tokens.map(plainText).join("");
}

const unescaped = (text: string): string =>
  text
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&");

function firstSentenceOf(tokens: readonly Token[]): string {
  const visible = tokens.filter(({ type, raw }) => type !== "space" && !/^\s*<!--/.test(raw));
  const index = visible.findIndex((token) => token.type === "heading" && token["depth"] === 1);
  const next = visible[index + 1];
  if (index < 0 || next?.type !== "paragraph") return "";
  const text = plainText(next).replace(/\s+/g, " ").trim();
  return /^.*?[.!?:](?=\s+["“(`]?[A-Z`]|$)/.exec(text)?.[0] ?? text;
}

function tablesOf(tokens: readonly Token[]): Table[] {
  let heading = "";
  return tokens.flatMap((token) => {
    if (token.type === "heading") heading = plainText(token);
    if (token.type !== "table") return [];
    const { header, rows } = token as Tokens.Table;
    return [{ heading, columns: header.map(textOf), rows: rows.map((row) => row.map(textOf)) }];
  });
}

const textOf = ({ text }: Tokens.TableCell): string => text;

/**
 * The rows of the first table whose columns begin with these.
 * @throws Error without such a table, or if it has no rows
 */
export function rowsOf({ path, tables }: Page, ...columns: readonly string[]): Table["rows"] {
  const { rows = [] } = tables.find((table) => columns.every((name, index) => table.columns[index] === name)) ?? {};
  if (rows.length === 0) throw new Error(`${path} has no table of ${columns.join(", ")}`);
  return rows;
}

/** The texts in code font in a cell or a sentence. */
export const codesIn = (markdown = ""): string[] => [...markdown.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);

function attributesOf(tokens: readonly Token[], name: RegExp): string[] {
  const attribute = new RegExp(`\\s${name.source}=(?:"([^"]*)"|'([^']*)')`, "g");
  return tokens
    .filter(({ type }) => type === "html")
    .flatMap(({ raw }) => [...raw.replace(/<!--[^]*?-->/g, "").matchAll(attribute)])
    .map(([, double, single]) => double ?? single ?? "");
}

function blocksOf(page: string, text: string, tokens: readonly Token[]): Block[] {
  const fenced = tokens.filter((token) => token.type === "code" && token["codeBlockStyle"] !== "indented");
  const openings = linesOf(text).filter(({ isOpening }) => isOpening);
  if (openings.length !== fenced.length) {
    throw new Error(`${page}: ${openings.length} fences, but ${fenced.length} fenced blocks`);
  }
  return fenced.map((token, index) => {
    const [language = "", ...info] = ("lang" in token && typeof token.lang === "string" ? token.lang : "").split(/\s+/);
    return {
      page,
      language: language.toLowerCase(),
      info,
      text: "text" in token ? `${String(token.text)}\n` : "",
      line: openings[index]?.number ?? 0,
    };
  });
}

interface Line extends ProseLine {
  readonly isOpening: boolean;
  readonly isProse: boolean;
}

function linesOf(text: string): Line[] {
  let fence: string | null = null;
  return text.split("\n").map((line, index) => {
    const [, mark = ""] = /^[\s>]*(?:[-*]\s+|\d+\.\s+)?(`{3,}|~{3,})/.exec(line) ?? [];
    const isOpening = fence === null && mark !== "";
    const isProse = fence === null && mark === "";
    if (isOpening) fence = mark;
    else if (fence !== null && mark.startsWith(fence)) fence = null;
    return { number: index + 1, text: line, isOpening, isProse };
  });
}
