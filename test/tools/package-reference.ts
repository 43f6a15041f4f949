/**
 * Generates docs/reference/package.md and docs/reference/package-*.md: every function and option of the npm package,
 * from its types and their comments. Run it with `npx node test/tools/package-reference.ts --write`.
 */
import { type Generated, wrapped, writeGenerated } from "./generated.ts";
import { type Exported, type Member, readSubpaths, type Subpath } from "./package-types.ts";

/** All other subpaths are on the first page. */
const mainPage = "package.md";
const ownPages: Readonly<Record<string, string>> = {
  client: "package-client.md",
  strategies: "package-engine.md",
};
const pageOf = (subpath: string): string => ownPages[subpath] ?? mainPage;

/** The pages about options that the policies of the configuration also have. */
const details: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  PolicyOptions: {
    limits: "policies.md#limits",
    strategy: "strategies.md",
    key: "keys.md",
    onMissingKey: "policies.md#missing-key-parts",
    cost: "policies.md#cost",
    count: "policies.md#count",
    match: "policies.md#match",
    pathMatching: "policies.md#path-matching",
    overrides: "policies.md#overrides",
    "`allow` and `deny`": "policies.md#allow-and-deny",
    ban: "policies.md#ban",
    dryRun: "policies.md#dryrun",
    onDeny: "policies.md#ondeny",
    maxDelay: "policies.md#maxdelay",
    "`onError` and `timeout`": "policies.md#onerror-and-timeout",
    "`consistency` and `syncEvery`": "policies.md#consistency",
    denyCache: "policies.md#denycache",
    "`objects`, `shards`, `locationHint` and `jurisdiction`": "policies.md#objects",
    durability: "policies.md#durability",
    "`ipv6Prefix` and `trustedProxies`": "keys.md#ip",
  },
  LimitOptions: { "the fields of each strategy": "policies.md#limits" },
  MatchOptions: { "patterns of paths": "policies.md#path-patterns" },
  OverrideOptions: { "keys and conditions": "policies.md#exceptions-for-some-keys" },
  LimiterCheckInput: { attributes: "check-api.md#attributes" },
  LimiterAnswer: { "fields of a response": "check-api.md#fields-of-a-response" },
  LimiterReserveInput: { reservations: "check-api.md#reservations" },
  CheckInput: { "fields of a check": "check-api.md#fields-of-a-check" },
  LookInput: { attributes: "check-api.md#attributes" },
  CheckAnswer: { "fields of a response": "check-api.md#fields-of-a-response" },
  ReserveInput: { reservations: "check-api.md#reservations" },
  Problem: { "types of problems": "errors.md" },
};

/** The page shows wider types in full below the table. */
const widestType = 38;

export function packageReference(): Generated {
  const described = new Map<string, string>();
  const texts = readSubpaths().map((subpath) => ({
    page: pageOf(subpath.name),
    text: subpathText(subpath, described),
  }));
  const pages = [...new Set([mainPage, ...Object.values(ownPages)])].map((page) => [
    `docs/reference/${page}`,
    [texts.flatMap((each) => (each.page === page ? [each.text] : [])).join("\n\n")],
  ]);
  return {
    command: "npx node test/tools/package-reference.ts",
    pages: Object.fromEntries(pages),
    figures: {},
  };
}

/** @param described for each export that is already on a page, its subpath, by the export's name and comment */
function subpathText({ name, about, exports }: Subpath, described: Map<string, string>): string {
  const identityOf = (exported: Exported): string => `${exported.name}: ${exported.about}`;
  const isOwn = (exported: Exported): boolean => !described.has(identityOf(exported));
  const own = exports.filter(isOwn);
  const others = exports.filter((exported) => !isOwn(exported));
  const repeated = others.map((exported) => {
    const place = described.get(identityOf(exported)) ?? "";
    return `\`${exported.name}\` ([${place}](${pageOf(place)}#headgate${place}))`;
  });
  for (const exported of own) described.set(identityOf(exported), name);
  const callable = own.filter(({ signature }) => /^export (?:function|const)/.test(signature ?? ""));
  const types = own.filter((exported) => !callable.includes(exported));
  return [
    `## \`headgate/${name}\``,
    wrapped(sentence(about.replace(/^`[^`]*`: /, ""))),
    ...[...callable, ...types].map(exportedText),
    ...(repeated.length > 0 ? [wrapped(`Also exported: ${repeated.join(", ")}.`)] : []),
  ].join("\n\n");
}

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function exportedText(exported: Exported): string {
  const { name, about, signature, members, bases } = exported;
  if (about === "") throw new Error(`${name} needs a comment`);
  const inherited = bases.map((base) => `\`${base}\``).join(" and ");
  const parts = [
    `### \`${name}\``,
    wrapped(inherited === "" ? about : `${about} It has everything that ${inherited} has, and:`),
    ...(signature === null ? [] : [`\`\`\`ts signature\n${signature}\n\`\`\``]),
    ...(members.length === 0 ? [] : [membersText(exported)]),
    ...linksText(name),
  ];
  return parts.join("\n\n");
}

function linksText(name: string): string[] {
  const links = Object.entries(details[name] ?? {}).map(
    ([title, page]) => `[${/[ `]/.test(title) ? title : `\`${title}\``}](${page})`,
  );
  return links.length === 0 ? [] : [wrapped(`See also: ${links.join(", ")}.`)];
}

function membersText({ name, members }: Exported): string {
  for (const member of members) {
    if (member.about === "") throw new Error(`${name}.${member.name} needs a comment`);
  }
  if (members.some(isMethod)) return members.map(listed).join("\n");
  const isInput = /(?:Options|Input|Defaults)$/.test(name);
  if (isInput) for (const member of members) requireDefault(name, member);
  const head = isInput ? ["option", "type", "default", "meaning"] : ["field", "type", "meaning"];
  const rows = members.map((member) => [
    `\`${member.name}${!isInput && member.isOptional ? "?" : ""}\``,
    codeCell(shortType(member.type)),
    ...(isInput ? [fallbackText(member)] : []),
    firstSentence(member.about).replace(/\.$/, ""),
  ]);
  const table = [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`);
  const more = members.flatMap(moreAbout);
  return [table.join("\n"), ...(more.length > 0 ? [more.join("\n")] : [])].join("\n\n");
}

/** Whether a member is a method. An option that may be a function is not a method and has a default. */
const isMethod = ({ type, fallback, isOptional }: Member): boolean =>
  /^\(.*\) => /.test(type) && !isOptional && fallback === null;

const listed = ({ name, type, about }: Member): string =>
  `- \`${name}${type.replace(/^(\(.*\)) => /, "$1: ").replace(/^(?!\()/, ": ")}\`\\\n  ${wrapped(about, 114).replaceAll("\n", "\n  ")}`;

function requireDefault(owner: string, { name, isOptional, fallback }: Member): void {
  if (isOptional && fallback === null) throw new Error(`${owner}.${name} needs the tag @default`);
}

/** Values are in code font. Other defaults are words. */
function fallbackText({ isOptional, fallback }: Member): string {
  if (!isOptional || fallback === null) return "required";
  return /^(?:"[^"]*"|\d+|true|false)$/.test(fallback) ? `\`${fallback}\`` : fallback;
}

/** The sentences after the first, and a type that is too wide for the table. */
function moreAbout({ name, type, about }: Member): string[] {
  const rest = about.slice(firstSentence(about).length).trim();
  const full = shortType(type) === plainType(type) ? "" : `Type: \`${plainType(type)}\`.`;
  const text = [rest, full].filter((part) => part !== "").join(" ");
  return text === "" ? [] : [wrapped(`- \`${name}\`: ${text}`, 114).replaceAll("\n", "\n  ")];
}

const firstSentence = (text: string): string => /^.*?\.(?=\s|$)/.exec(text)?.[0] ?? text;

/** Omits that functions may be asynchronous, which the page says once. */
const plainType = (type: string): string =>
  type
    .replace(/^\| /, "")
    .replaceAll(/\bMaybePromise<([^<>]*)>/g, "$1")
    .replaceAll("Context<E>", "Context")
    .replaceAll(/\bReadonly<(Record<[^<>]*>)>/g, "$1");

/** Shortens a type to as many of its alternatives as fit. */
function shortType(type: string): string {
  const plain = plainType(type);
  if (plain.length <= widestType) return plain;
  const short = plain
    .replaceAll(/\{[^{}]*\}/g, "object")
    .replaceAll(/\(\(.*?\) => .*?\)(?= \||$)/g, "function")
    .replace(/^\(.*\) => .*$/, "function");
  const all = [...new Set(short.match(/(?:\([^()]*\)|[^|()])+/g)?.map((each) => each.trim()))];
  const shown = all.filter((_, index) => all.slice(0, index + 1).join(" | ").length <= widestType - 4);
  return shown.length < all.length ? [...shown, "…"].join(" | ") : shown.join(" | ");
}

const codeCell = (text: string): string => `\`${text.replaceAll("|", "\\|")}\``;

if (import.meta.main) {
  if (process.argv[2] !== "--write") {
    console.error("Usage: npx node test/tools/package-reference.ts --write");
    process.exitCode = 2;
  } else {
    writeGenerated(packageReference());
  }
}
