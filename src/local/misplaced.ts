/** Variables that stand outside of `[vars]`, where nothing reads them: wrangler drops them with a warning at most. */
import { experimental_readRawConfig } from "wrangler";
import { isKnownVariable } from "../config/index.ts";
import { isRecord } from "../validation/problems.ts";

/** Sections whose names are the user's own, or of other tools. */
const foreign: ReadonlySet<string> = new Set(["vars", "define", "alias", "unsafe"]);

/**
 * A line for each of them, in the whole file: also in environments that are not chosen.
 * @param file a path that wrangler can read
 */
export function misplacedVariables(file: string): string[] {
  const { rawConfig }: { rawConfig: unknown } = experimental_readRawConfig({ config: file });
  return isRecord(rawConfig) ? misplacedIn(rawConfig, [], /\.jsonc?$/.test(file)) : [];
}

/** @param path of the section, as in `["env", "staging"]` */
function misplacedIn(
  section: Readonly<Record<string, unknown>>,
  path: readonly string[],
  isJson: boolean,
): string[] {
  return Object.entries(section).flatMap(([name, value]) => {
    if (isKnownVariable(name)) return [lineFor(name, value, path, isJson)];
    if (foreign.has(name)) return [];
    const inner = Array.isArray(value) ? (value as unknown[]) : [value];
    return inner.filter(isRecord).flatMap((each) => misplacedIn(each, [...path, name], isJson));
  });
}

function lineFor(name: string, value: unknown, path: readonly string[], isJson: boolean): string {
  const [first, environment] = path;
  const prefix = first === "env" && environment !== undefined ? `env.${environment}.` : "";
  const where = path.length === 0 ? "at the top level" : `in [${path.join(".")}]`;
  const isTables = Array.isArray(value) && value.every(isRecord) && !isJson;
  const advice = isTables
    ? `write [[${prefix}vars.${name}]] instead of [[${[...path, name].join(".")}]]`
    : `move it to ${isJson ? `"${prefix}vars"` : `[${prefix}vars]`}`;
  return `${name} is ${where}, where it has no effect: ${advice}`;
}
