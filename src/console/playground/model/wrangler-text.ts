/** Limits as lines of `wrangler.toml`, to copy. */
import type { LimitInput } from "../../../strategies/index.ts";

/** The variables of the short form, below `[vars]`. */
export function wranglerText(limits: readonly LimitInput[]): string {
  const [only] = limits;
  if (only !== undefined && limits.length === 1 && isPlain(only)) {
    const strategy = only.strategy === undefined ? "" : `STRATEGY = ${tomlValue(only.strategy)}\n`;
    return `[vars]\nLIMITS = ${notation(only)}\n${strategy}`;
  }
  return `[vars]\nLIMITS = [\n${limits.map((limit) => `  ${itemText(limit)},\n`).join("")}]\n`;
}

/** Whether a limit has no fields of its own except a strategy. */
const isPlain = ({ limit: _limit, window: _window, strategy: _strategy, ...rest }: LimitInput) =>
  Object.values(rest).every((value) => value === undefined);

const notation = ({ limit, window }: LimitInput): string => tomlValue(`${limit}/${window}`);

function itemText(limit: LimitInput): string {
  if (isPlain(limit) && limit.strategy === undefined) return notation(limit);
  const fields = Object.entries(limit).filter(([, value]) => value !== undefined);
  return `{ ${fields.map(([name, value]) => `${name} = ${tomlValue(value)}`).join(", ")} }`;
}

/** A text, a number or a boolean. TOML writes them as JSON does. */
const tomlValue = (value: unknown): string => JSON.stringify(value);
