/** The lanes of a scenario: its limits exactly as written, and the same limits under each strategy. */
import { describeProblem, type Limit, type LimitInput, readLimits, strategies } from "../../../strategies/index.ts";
import { compiledLimit } from "../../../strategies/compiled-limit.ts";
import type { LaneLimit, MissingLane, Scenario } from "./scenario.ts";

/** The lane of the limits exactly as written. */
export const writtenLane = "written";

export interface Lane {
  readonly lane: string;
  readonly limits: readonly Limit[];
}

interface Lanes {
  /** The limits as written come first. */
  readonly lanes: readonly Lane[];
  readonly missing: readonly MissingLane[];
}

/**
 * The lanes of valid limits. A strategy that all limits have already has no lane of its own. There is a lane for slots only
 * if requests take time.
 */
export function lanesOf({ limits, runsMs }: Scenario): Lanes {
  const written = read(limits, () => {});
  const lanes: Lane[] = [{ lane: writtenLane, limits: written }];
  const missing: MissingLane[] = [];
  for (const [name, { holdsSlots }] of strategies) {
    if (written.every(({ strategy }) => strategy === name)) continue;
    const reasons = holdsSlots && runsMs === 0 ? ["requests take no time, so none holds a slot"] : [];
    const under = read(
      limits.map((limit) => withStrategy(limit, name)),
      (reason) => reasons.push(reason),
    );
    if (reasons.length === 0) lanes.push({ lane: name, limits: under });
    else missing.push({ lane: name, reason: reasons.join("; ") });
  }
  return { lanes, missing };
}

const read = (limits: readonly LimitInput[], report: (reason: string) => void): Limit[] =>
  readLimits(limits, {}, (problem) => report(describeProblem({ ...problem, variable: "limits" })));

/** The limit under another strategy, with the options that this strategy accepts, too. */
function withStrategy(written: LimitInput, strategy: string): LimitInput {
  const { limit, window, strategy: _, name, ...options } = written;
  const under: LimitInput = { limit, window, strategy, ...(name !== undefined && { name }) };
  return Object.entries(options).reduce((sum, [option, value]) => {
    const isAccepted = isValid({ limit, window, strategy, [option]: value });
    return isAccepted ? { ...sum, [option]: value } : sum;
  }, under);
}

function isValid(limit: LimitInput): boolean {
  let problems = 0;
  read([limit], () => problems++);
  return problems === 0;
}

const hourMs = 3_600_000;

/** The length of the shortest period of each kind. The documented bounds hold for spans of this length. */
const shortestPeriodMs = {
  day: 23 * hourMs,
  week: 167 * hourMs,
  month: 28 * 24 * hourMs - hourMs,
  year: 365 * 24 * hourMs,
};

export function laneLimitOf(written: Limit): LaneLimit {
  const { limit, strategy, name, units, windowMs, capacity } = compiledLimit(written);
  return {
    name,
    strategy: strategy.name,
    limit: units,
    capacity,
    windowMs: limit.period === undefined ? windowMs : shortestPeriodMs[limit.period],
    ...(limit.period !== undefined && { period: limit.period }),
    mostPerWindow: strategy.mostPerWindow(limit),
    holdsSlots: strategy.holdsSlots,
  };
}
