/** A recommended policy as lines of `wrangler.toml`, to copy. */
import { acceptedName, type LimitInput, namePattern } from "../../strategies/index.ts";
import { token } from "../../policy/key.ts";
import type { RequestPattern } from "../log/log-filter.ts";
import { CommandError } from "../../cli/command.ts";
import { windowText } from "./limit-sets.ts";
import type { LogFilter } from "./traffic-options.ts";

export interface TomlPolicy {
  readonly name: string;
  readonly keyParts: readonly string[];
  /** The names among them that are fields of a log and not key parts. */
  readonly keyFields: readonly string[];
  /** Which requests of the log were read. Default: all. */
  readonly filter?: LogFilter | null;
  /** With the same strategy. */
  readonly written: readonly LimitInput[];
  readonly strategy: string;
}

/** @throws CommandError when the name is not one of a policy */
export function policyName(name: string): string {
  if (namePattern.test(name)) return name;
  throw new CommandError(`--name: expected ${acceptedName}, got "${name}"`);
}

export function policyToml(policy: TomlPolicy): string[] {
  const { name, keyParts, keyFields, filter = null, written, strategy } = policy;
  const parts = keyParts.map((part) => (keyFields.includes(part) ? headerOf(part) : part));
  return [
    ...keyFields.map(
      (field) =>
        `# "${plain(field)}" is a field of the log and no key part: replace "${headerOf(field)}" with the part that has it.`,
    ),
    ...filterComments(filter),
    "[[vars.POLICIES]]",
    `name = ${JSON.stringify(name)}`,
    `key = ${JSON.stringify(parts)}`,
    ...matchToml(filter?.match ?? []),
    `strategy = ${JSON.stringify(strategy)}`,
    `limits = ${limitsToml(written)}`,
  ];
}

/** Comments on a filter that a policy cannot express. */
function filterComments(filter: LogFilter | null): string[] {
  const match = filter?.match ?? [];
  const texts = match.map(({ text }) => plain(text)).join(" or ");
  return [
    ...(match.length > 1 ? [`# Only the requests ${texts} were read: write a policy for each.`] : []),
    ...(filter?.status == null
      ? []
      : [`# Only the status ${filter.status} was read: this policy counts all requests.`]),
  ];
}

function matchToml(match: readonly RequestPattern[]): string[] {
  const [pattern, ...others] = match;
  if (pattern === undefined || others.length > 0) return [];
  const { methods, text } = pattern;
  const fields = [
    ...(methods === null ? [] : [`methods = ${JSON.stringify(methods)}`]),
    ...(pattern.path === null ? [] : [`path = ${JSON.stringify(text.split(/\s+/).at(-1))}`]),
  ];
  return [`match = { ${fields.join(", ")} }`];
}

const plain = (field: string): string => field.replaceAll(/[^\x20-\x7e]/g, "?");

/** The header that the name of a field suggests, such as x-api-key for http_x_api_key. */
function headerOf(field: string): string {
  const header = field
    .toLowerCase()
    .replace(/^(?:http_|(?:request\.)?headers\.|requestheaders\.)/, "")
    .replaceAll(/[^a-z0-9]+/g, "-");
  return `header:${token.test(header) ? header : "x-key"}`;
}

function limitsToml(written: readonly LimitInput[]): string {
  if (written.every(isPlain)) {
    return JSON.stringify(written.map(({ limit, window }) => `${limit}/${windowText(window)}`).join("; "));
  }
  const tables = written.map(({ strategy: _strategy, ...limit }) => {
    const fields = Object.entries(limit).filter(([, value]) => value !== undefined);
    return `{ ${fields.map(([field, value]) => `${field} = ${JSON.stringify(value)}`).join(", ")} }`;
  });
  return `[${tables.join(", ")}]`;
}

const isPlain = ({ limit: _limit, window: _window, strategy: _strategy, ...rest }: LimitInput) =>
  Object.values(rest).every((value) => value === undefined);
