/** Limits as lines of `wrangler.toml`, to copy. */
import { defaultStrategy, type LimitInput } from "../../../strategies/index.ts";

/** TOML rejects a second `[vars]`, which the file has already. */
const place = "# Below [vars] in wrangler.toml, in place of LIMITS, STRATEGY and POLICIES:\n";

/** The variables of the short form. They are complete, so that no `STRATEGY` of the file applies to them. */
export function wranglerText(limits: readonly LimitInput[]): string {
  const [only] = limits;
  if (only !== undefined && limits.length === 1 && isPlain(only)) {
    const strategy = tomlValue(only.strategy ?? defaultStrategy);
    return `${place}LIMITS = ${notation(only)}\nSTRATEGY = ${strategy}\n`;
  }
  const items = limits.map((limit) => `  ${itemText(limit)},\n`).join("");
  const isComplete = limits.every(({ strategy }) => strategy !== undefined);
  const rest = isComplete ? "" : `STRATEGY = ${tomlValue(defaultStrategy)}\n`;
  return `${place}LIMITS = [\n${items}]\n${rest}`;
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
