/** The check of the configuration that `npm run check-config`, `npm start` and `npm run deploy` share. */
import { experimental_readRawConfig } from "wrangler";
import type { AdminSettings } from "../policy/vars/admin.ts";
import { type Config, deploymentProblems, parseConfig } from "../policy/vars/config.ts";
import { isRecord } from "../validation/json.ts";
import { ConfigProblems, describeProblem } from "../validation/problems.ts";
import { isKnownVariable, type VariableNote } from "../policy/vars/known-variables.ts";
import { formatWindow } from "../strategies/index.ts";
import { leastCompatibilityDate } from "../validation/compatibility.ts";
import { devVarsFile } from "./configuration-source.ts";
import { deployedVariables, secretOfPlaceholder, type Settings } from "./settings.ts";
import { lineFinder, lineInDevVars, nearestLine, pathIn, type ValuePath } from "./source-lines.ts";

/** https://developers.cloudflare.com/workers/platform/limits/#environment-variables */
const maxVariableBytes = 5 * 1024;

export interface Findings {
  readonly config: Config | null;
  /** One text for each problem; empty for a valid configuration. */
  readonly problems: readonly string[];
  /** The texts of the problems, each with the file and the line of its value, where they are known. */
  readonly lines: readonly string[];
  readonly warnings: readonly string[];
}

/** A problem, and the path of its value: in the file, or in the variable that is named. */
interface Found {
  readonly text: string;
  readonly variable?: string;
  readonly path?: ValuePath;
}

const withText = (text: string): Found => ({ text });

/** The check of a deployment, which decides whether `npm run deploy` deploys. */
export const checkDeployment = (settings: Settings): Findings =>
  checkConfiguration(settings, deployedVariables(settings));

/** @param variables the variables that the Worker would get with these settings */
export function checkConfiguration(settings: Settings, variables: Readonly<Record<string, unknown>>): Findings {
  const read = readConfig(variables);
  const config = read instanceof ConfigProblems ? null : read;
  const problems = read instanceof ConfigProblems ? read.problems : [];
  const missing = problems.filter(({ value }) => value === undefined);
  const reported = new Set(missing.map(({ variable }) => variable));
  const found: readonly Found[] = [
    ...misplacedVariableProblems(settings.source.file),
    ...sizeProblems({ ...settings.secrets, ...settings.uploadedSecrets, ...settings.vars }),
    ...missingBinding(settings, "RATE_LIMITER", "RateLimiter").map(withText),
    ...dateProblems(settings).map(withText),
    ...environmentProblems(settings, config).map(withText),
    ...deploymentProblems(variables),
    ...problems.map((problem) => ({
      text: describeProblem(problem),
      variable: problem.variable,
      path: pathIn(problem.field),
    })),
    ...secretProblems(settings, variables, reported).map(withText),
  ];
  return {
    config,
    problems: found.map(({ text }) => text),
    lines: withLines(found, settings, variables),
    warnings: [
      ...settingsWarnings(settings),
      ...(config === null || config.admin === null ? [] : adminWarnings(settings, config.admin)),
      ...(config?.warnings ?? []),
    ],
  };
}

/** Puts the file and the line of a value before the text. Values of the command line and of the environment have none. */
function withLines(
  found: readonly Found[],
  { source, wrangler, secrets }: Settings,
  variables: Readonly<Record<string, unknown>>,
): string[] {
  const { file, environment } = source;
  const find = lineFinder(file);
  const section = [...(environment === "" ? [] : ["env", environment]), "vars"];
  return found.map(({ text, variable, path = [] }) => {
    if (variable === undefined) return path.length === 0 ? text : withPlace(file, find(path), text);
    const value = variables[variable];
    if (value === undefined || Object.hasOwn(source.vars, variable)) return text;
    if (wrangler.vars[variable] === value) {
      return withPlace(file, nearestLine(find, [...section, variable, ...path], section.length + 1), text);
    }
    const secretsFile = devVarsFile(source);
    return secrets[variable] === value ? withPlace(secretsFile, lineInDevVars(secretsFile, variable), text) : text;
  });
}

const withPlace = (file: string, line: number | null, text: string): string =>
  line === null ? text : `${file}:${line}: ${text}`;

function readConfig(variables: Readonly<Record<string, unknown>>): Config | ConfigProblems {
  try {
    return parseConfig(variables);
  } catch (error) {
    if (error instanceof ConfigProblems) return error;
    throw error;
  }
}

/** One problem for each variable over Cloudflare's size limit. */
export function sizeProblems(vars: Readonly<Record<string, unknown>>): VariableNote[] {
  return Object.entries(vars).flatMap(([variable, value]) => {
    const sizeBytes = Buffer.byteLength(typeof value === "string" ? value : JSON.stringify(value));
    if (sizeBytes <= maxVariableBytes) return [];
    const expected = `expected at most ${maxVariableBytes} bytes, got ${sizeBytes}`;
    return { variable, text: `${variable}: ${expected}; put further policies into POLICIES_2, POLICIES_3, …` };
  });
}

/** The limits of a valid configuration, one line for each policy. */
export function summary({ policies, origin }: Config): string {
  const names = policies.map(({ name, limits, lists, isDryRun }) => {
    const unread = secretOfPlaceholder(name);
    if (unread !== null) return `  ${unread}: a secret whose value is not available here`;
    const texts = limits.map((limit) => `${limit.limit} per ${formatWindow(limit)}, ${limit.strategy}`);
    const { overrides, allow, deny } = lists;
    const notes = [
      ...(isDryRun ? ["dry run"] : []),
      ...Object.entries({ overrides, allow, deny }).flatMap(([field, { length }]) =>
        length === 0 ? [] : `${field}: ${length}`,
      ),
    ];
    return `  ${name}: ${texts.join("; ")}${notes.length > 0 ? ` (${notes.join(", ")})` : ""}`;
  });
  const isOriginUnset = origin.kind === "none" || origin.kind === "demo";
  const where = isOriginUnset ? " ORIGIN is not set, so only /check is served." : "";
  return `The configuration is valid.${where}\n${names.join("\n")}`;
}

/** One line for each secret that the Worker does not get, and one if the environment has no `[secrets]`. */
function settingsWarnings({ source, wrangler, ignoredDevVars }: Settings): string[] {
  const { file, environment } = source;
  const section = environment === "" ? "secrets" : `env.${environment}.secrets`;
  return [
    ...ignoredDevVars.map(
      (name) => `${name} is set in .dev.vars, but the Worker does not get it: list it under [${section}] in ${file}.`,
    ),
    ...(wrangler.secrets === undefined
      ? [`[${section}] is missing in ${file}: without it, wrangler deploys even if KEY_SECRET is not set.`]
      : []),
  ];
}

/** One line for each required secret that is not set and not `reported`. */
function secretProblems(
  { requiredSecrets, source: { file } }: Settings,
  variables: Readonly<Record<string, unknown>>,
  reported: ReadonlySet<string>,
): string[] {
  const missing = requiredSecrets.filter(
    (name) => !reported.has(name) && (variables[name] === undefined || variables[name] === ""),
  );
  return missing.map(
    (name) =>
      `${name} is missing: ${file} requires this secret. Set it in .dev.vars, or for a deployment run npx wrangler secret put ${name}`,
  );
}

/** One line if the compatibility date is too old for features that the Worker uses. */
function dateProblems({ wrangler, source: { file } }: Settings): string[] {
  const { compatibility_date: date, compatibility_flags: flags } = wrangler;
  // The flag alone enables the latest of the features.
  if (date === undefined || date >= leastCompatibilityDate) return [];
  if (date >= "2024-04-03" && flags.includes("enable_weak_ref")) return [];
  return [`compatibility_date in ${file}: expected "${leastCompatibilityDate}" or later, got "${date}"`];
}

/**
 * One line if an environment would run the demo, because the user may expect it to inherit the variables of the top
 * level.
 */
function environmentProblems({ source: { file, environment } }: Settings, config: Config | null): string[] {
  if (environment === "" || config?.origin.kind !== "demo") return [];
  return [
    `POLICIES is missing in the environment "${environment}" of ${file}: expected [[env.${environment}.vars.POLICIES]], ` +
      `or LIMITS in [env.${environment}.vars]. Environments do not inherit variables.`,
  ];
}

/**
 * Lines about the control plane and `[assets]`. Another line if a deployment has tokens of the admin API but no host
 * for the console; a local run always has both.
 */
function adminWarnings(settings: Settings, { host }: AdminSettings): string[] {
  const { wrangler, vars, uploadedSecrets, requiredSecrets, source } = settings;
  const { assets } = wrangler;
  const hasTokens = requiredSecrets.includes("ADMIN_TOKENS") || "ADMIN_TOKENS" in { ...vars, ...uploadedSecrets };
  const warnings = missingBinding(settings, "CONTROL_PLANE", "ControlPlane").map(
    (line) => `${line} Without it, the admin API responds with 503.`,
  );
  if (assets?.binding !== "ASSETS") return warnings;
  if (assets.run_worker_first !== true) {
    warnings.push(
      `[assets] in ${source.file}: expected run_worker_first = true; without it, files of the console are served in place of your origin's.`,
    );
  }
  if (assets.html_handling !== "none") {
    warnings.push(`[assets] in ${source.file}: expected html_handling = "none"; without it, the console is not found.`);
  }
  if (hasTokens && host === null) {
    warnings.push(
      'ADMIN_HOST is not set, so the console is not served: set it to a host such as "admin.example.com", or remove [assets].',
    );
  }
  return warnings;
}

/** Environments inherit no bindings. */
function missingBinding(
  { wrangler, source: { file, environment } }: Settings,
  binding: string,
  className: string,
): string[] {
  if (wrangler.durable_objects.bindings.some(({ name }) => name === binding)) return [];
  const section = environment === "" ? "" : `env.${environment}.`;
  const where = environment === "" ? file : `the environment "${environment}" of ${file}`;
  const why = environment === "" ? "" : " Environments do not inherit bindings.";
  return [
    `${binding} is missing in ${where}: expected [[${section}durable_objects.bindings]] with ` +
      `name = "${binding}" and class_name = "${className}".${why}`,
  ];
}

/** Sections in which users and other tools choose the names. */
const otherSections: ReadonlySet<string> = new Set(["vars", "define", "alias", "unsafe"]);

/**
 * One problem for each variable outside of `[vars]`, in any environment of the file. wrangler ignores such variables, at
 * most with a warning.
 * @param file a path that wrangler can read
 */
function misplacedVariableProblems(file: string): Found[] {
  const { rawConfig }: { rawConfig: unknown } = experimental_readRawConfig({ config: file });
  return isRecord(rawConfig) ? misplacedInSection(rawConfig, [], /\.jsonc?$/.test(file)) : [];
}

/** @param path names of the enclosing sections, such as `["env", "staging"]` */
function misplacedInSection(
  section: Readonly<Record<string, unknown>>,
  path: readonly string[],
  isJson: boolean,
): Found[] {
  return Object.entries(section).flatMap(([name, value]) => {
    if (isKnownVariable(name)) {
      return [{ text: misplacementText(name, value, path, isJson), path: [...path, name] }];
    }
    if (otherSections.has(name)) return [];
    const sections = Array.isArray(value) ? (value as unknown[]) : [value];
    return sections.filter(isRecord).flatMap((inner) => misplacedInSection(inner, [...path, name], isJson));
  });
}

function misplacementText(name: string, value: unknown, path: readonly string[], isJson: boolean): string {
  const [first, environment] = path;
  const prefix = first === "env" && environment !== undefined ? `env.${environment}.` : "";
  const where = path.length === 0 ? "at the top level" : `in [${path.join(".")}]`;
  const isTables = Array.isArray(value) && value.every(isRecord) && !isJson;
  const advice = isTables
    ? `write [[${prefix}vars.${name}]] instead of [[${[...path, name].join(".")}]]`
    : `move it to ${isJson ? `"${prefix}vars"` : `[${prefix}vars]`}`;
  return `${name} is ${where}, where it has no effect: ${advice}`;
}
