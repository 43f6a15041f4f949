/** The one check that `npm run check-config`, `npm start` and `npm run deploy` share. */
import {
  type Config,
  ConfigProblems,
  deploymentProblems,
  describeProblem,
  parseConfig,
} from "../config/index.ts";
import { formatWindow } from "../strategies/index.ts";
import { misplacedVariables } from "./misplaced.ts";
import {
  bindingProblems,
  secretProblems,
  type Settings,
  unreadVariable,
  warningsOf,
} from "./settings.ts";

/** https://developers.cloudflare.com/workers/platform/limits/#environment-variables */
const largestVariableBytes = 5 * 1024;

export interface Findings {
  /** Null when the variables have problems. */
  readonly config: Config | null;
  /** One line each; empty for a valid configuration. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** @param variables what the Worker would get under these settings */
export function check(settings: Settings, variables: Readonly<Record<string, unknown>>): Findings {
  const { config, problems } = readConfig(variables);
  const known = new Set(problems.map(subjectOf));
  return {
    config,
    problems: [
      ...misplacedVariables(settings.source.file),
      ...sizeProblems({ ...settings.secrets, ...settings.uploaded, ...settings.vars }),
      ...bindingProblems(settings),
      ...deploymentProblems(variables),
      ...problems,
      ...secretProblems(settings, variables).filter((line) => !known.has(subjectOf(line))),
    ],
    warnings: [...warningsOf(settings), ...(config?.warnings ?? [])],
  };
}

/** `POLICIES is missing`, of any line that says so, so that each missing variable is reported once. */
const subjectOf = (line: string): string => /^\w+ is missing(?=:)/.exec(line)?.[0] ?? line;

function readConfig(variables: Readonly<Record<string, unknown>>): {
  config: Config | null;
  problems: string[];
} {
  try {
    return { config: parseConfig(variables), problems: [] };
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    return { config: null, problems: error.problems.map(describeProblem) };
  }
}

/** A line for each variable that Cloudflare would refuse for its size. */
export function sizeProblems(vars: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(vars).flatMap(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    const sizeBytes = Buffer.byteLength(text);
    return sizeBytes <= largestVariableBytes
      ? []
      : `${name} is ${sizeBytes} bytes long: accepted are ${largestVariableBytes}; policies may go on in POLICIES_2, POLICIES_3, …`;
  });
}

/** What a valid configuration does, one line for each policy. */
export function summary({ policies, origin }: Config): string {
  const names = policies.map(({ name, limits, keyRules, isDryRun }) => {
    const unread = unreadVariable(name);
    if (unread !== null) return `  ${unread}: a secret, whose value cannot be read here`;
    const each = limits.map(
      (limit) => `${limit.limit} per ${formatWindow(limit)}, ${limit.strategy}`,
    );
    const { overrides, allow, deny } = keyRules;
    const notes = [
      ...(isDryRun ? ["dry run"] : []),
      ...counted({ overriding: overrides, allowed: allow, denied: deny }),
    ];
    return `  ${name}: ${each.join("; ")}${notes.length > 0 ? ` (${notes.join(", ")})` : ""}`;
  });
  const where = { url: "", route: "", none: " There is no ORIGIN: only /check is served." }[
    origin.kind
  ];
  return `The configuration is sound.${where}\n${names.join("\n")}`;
}

/** The length of each list that is not empty, with its name. */
function counted(lists: Readonly<Record<string, readonly unknown[]>>): string[] {
  return Object.entries(lists).flatMap(([name, list]) =>
    list.length === 0 ? [] : [`${list.length} ${name}`],
  );
}
