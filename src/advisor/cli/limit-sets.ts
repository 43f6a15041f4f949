/** The sets of limits that `npm run what-if` compares. */
import {
  acceptedStrategy,
  describeProblem,
  formatWindow,
  holdsSlots,
  type Limit,
  readLimits,
  strategies,
} from "../../strategies/index.ts";
import { jsonOrNull } from "../../validation/json.ts";
import { CommandError, type CommandOptions } from "../../cli/command.ts";
import { countText } from "./report-text.ts";

export const limitOptions = {
  limits: {
    type: "string",
    multiple: true,
    value: "limits",
    about: 'Limits such as "100/minute; 10/second", or as JSON; one set for each option.',
  },
  strategy: {
    type: "string",
    value: "name",
    about: "The strategy of limits that name none; else sliding-window-counter.",
  },
} as const satisfies CommandOptions;

export interface LimitSet {
  /** Short, for the rows of tables. */
  readonly label: string;
  readonly limits: readonly Limit[];
}

interface LimitValues {
  readonly limits?: readonly string[] | undefined;
  readonly strategy?: string | undefined;
}

const labels = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** @throws CommandError when limits are missing or invalid */
export function writtenLimitSets({ limits = [], strategy }: LimitValues): LimitSet[] {
  if (limits.length === 0) {
    throw new CommandError(
      '--limits is missing: expected limits such as "100/minute; 10/second", or a list of limits as JSON',
    );
  }
  if (limits.length > labels.length) {
    throw new CommandError(`--limits: expected at most ${labels.length} sets, got ${limits.length}`);
  }
  if (strategy !== undefined && !strategies.has(strategy)) {
    throw new CommandError(`--strategy: expected ${acceptedStrategy}, got "${strategy}"`);
  }
  return limits.map((text, index) => ({
    label: labels[index] ?? "",
    limits: limitsOf(text, strategy),
  }));
}

function limitsOf(text: string, strategy: string | undefined): readonly Limit[] {
  const isJson = /^\s*[[{]/.test(text);
  const written: unknown = isJson ? jsonOrNull(text) : text;
  if (isJson && written === null) {
    throw new CommandError(
      `--limits: expected JSON such as [{"limit": 100, "window": "1m", "burst": 200, "strategy": "token-bucket"}], got ${text}`,
    );
  }
  const problems: string[] = [];
  const limits = readLimits(written, strategy === undefined ? {} : { strategy }, (problem) =>
    problems.push(describeProblem({ ...problem, variable: "--limits" })),
  );
  if (problems.length > 0) throw new CommandError([...new Set(problems)].join("\n"));
  return limits;
}

/** @throws CommandError when a set needs to know how long requests run */
export function rejectSlots(sets: readonly LimitSet[]): void {
  const slots = sets.flatMap(({ limits }) => limits).find(holdsSlots);
  if (slots === undefined) return;
  throw new CommandError(
    `--limits: the strategy "${slots.strategy}" counts requests that run, and a log has no durations. Expected another strategy, or the samples of a server (--url and --policy).`,
  );
}

const windowNames: Readonly<Record<string, string>> = {
  "1s": "second",
  "1m": "minute",
  "1h": "hour",
  "1d": "day",
  "1w": "week",
  "1mo": "month",
  "1y": "year",
};

/** The window of a limit in notation, such as "minute" or "10m". */
export const windowText = (window: string): string => windowNames[window] ?? window;

export const rateText = (limit: Limit): string => `${countText(limit.limit)} per ${windowText(formatWindow(limit))}`;

/** Such as "100 per minute; 10 per second, sliding-window-counter". */
export function ratesText(limits: readonly Limit[]): string {
  const names = new Set(limits.map(({ strategy }) => strategy));
  const detailed = limits.map((limit) => {
    const text = `${rateText(limit)}${burstText(limit)}`;
    return names.size === 1 ? text : `${text} (${limit.strategy})`;
  });
  return `${detailed.join("; ")}${names.size === 1 ? `, ${[...names].join("")}` : ""}`;
}

function burstText(limit: Limit): string {
  const burst: unknown = Reflect.get(limit, "burst");
  return typeof burst === "number" ? ` with a burst of ${countText(burst)}` : "";
}
