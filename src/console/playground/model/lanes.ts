/** The lanes of a scenario: its limits exactly as written, and the same limits under each strategy. */
import { describeProblem, type Limit, type LimitInput, readLimits, strategies } from "../../../strategies/index.ts";
import { compiledLimit } from "../../../strategies/compiled-limit.ts";
import { numberText } from "../../app/parts/text.ts";
import type { Scenario } from "./scenario.ts";

/** The lane of the limits exactly as written. */
export const writtenLane = "written";

export interface Lane {
  /** `writtenLane`, or the strategy that this lane uses in place of the written ones. */
  readonly lane: string;
  readonly limits: readonly LaneLimit[];
}

/** A lane without a run: why its strategy cannot decide the limits. */
export interface MissingLane {
  readonly lane: string;
  readonly reason: string;
}

/**
 * The lanes of valid limits, first the one for the limits as written. A strategy that all limits already have gets no
 * lane of its own. Slots get a lane only if requests take time.
 */
export function lanesOf({ limits, runsMs }: Pick<Scenario, "limits" | "runsMs">) {
  const written = read(limits, () => {});
  const lanes: Lane[] = [{ lane: writtenLane, limits: written.map(laneLimitOf) }];
  const missing: MissingLane[] = [];
  for (const [name, { holdsSlots }] of strategies) {
    if (written.every(({ strategy }) => strategy === name)) continue;
    const reasons = holdsSlots && runsMs === 0 ? ["requests take no time, so none holds a slot"] : [];
    const under = read(
      limits.map((limit) => withStrategy(limit, name)),
      (reason) => reasons.push(reason),
    );
    if (reasons.length === 0) lanes.push({ lane: name, limits: under.map(laneLimitOf) });
    else missing.push({ lane: name, reason: reasons.join("; ") });
  }
  return { lanes, missing };
}

const read = (limits: readonly LimitInput[], report: (reason: string) => void): Limit[] =>
  readLimits(limits, {}, (problem) => report(describeProblem({ ...problem, variable: "limits" })));

/** The same limit under another strategy. It keeps the options that this strategy accepts. */
function withStrategy(written: LimitInput, strategy: string): LimitInput {
  const { limit, window, strategy: _, name, ...options } = written;
  const under: LimitInput = { limit, window, strategy, ...(name !== undefined && { name }) };
  return Object.entries(options).reduce((sum, [option, value]) => {
    const isAccepted = isValid({ limit, window, strategy, [option]: value });
    return isAccepted ? { ...sum, [option]: value } : sum;
  }, under);
}

export function isValid(limit: LimitInput): boolean {
  let problems = 0;
  readLimits([limit], {}, () => problems++);
  return problems === 0;
}

const hourMs = 3_600_000;

/** The shortest possible length of each calendar period. The documented bounds hold for spans of this length. */
const shortestPeriodMs = {
  day: 23 * hourMs,
  week: 167 * hourMs,
  month: 28 * 24 * hourMs - hourMs,
  year: 365 * 24 * hourMs,
};

export type LaneLimit = Readonly<ReturnType<typeof laneLimitOf>>;

function laneLimitOf(rule: Limit) {
  const { limit, strategy, name, units, windowMs, capacity } = compiledLimit(rule);
  return {
    /** The limit in the form that the engine takes. */
    rule,
    name,
    strategy: strategy.name,
    /** Units per window. */
    limit: units,
    /** The most units that fit at one instant. */
    capacity,
    /** For a calendar window, the length of the shortest one. */
    windowMs: limit.period === undefined ? windowMs : shortestPeriodMs[limit.period],
    period: limit.period,
    /** The documented bound: the most units in any span of `windowMs`; for slots, at one instant. */
    mostPerWindow: strategy.mostPerWindow(limit),
    holdsSlots: strategy.holdsSlots,
  };
}

type Align = "first-request" | "clock";

interface WindowNote {
  /** A sentence on where the windows start, and one on how much can pass because of this. */
  readonly text: string;
  /** The alignment to change to with a click; null for calendar windows. */
  readonly other: Align | null;
}

/** Where the windows of each valid limit start; null for strategies whose windows have no start. */
export const windowNotesOf = (limits: readonly LimitInput[]): readonly (WindowNote | null)[] =>
  read(limits, () => {}).map(noteOf);

function noteOf(rule: Limit): WindowNote | null {
  const { limit, strategy } = compiledLimit(rule);
  const align: unknown = Reflect.get(limit, "align");
  if (align === undefined || Reflect.get(limit, "elastic") === true) return null;
  const { limit: units, mostPerWindow } = laneLimitOf(rule);
  const most = numberText(mostPerWindow);
  const isFixed = strategy.name === "fixed-window";
  if (align === "first-request") {
    const effect = `A burst from a new client meets one window, so that ${numberText(units)} pass; ${most} can pass around the end of a window that is already open.`;
    const start = "A window starts with the first request of a client (align=first-request).";
    return { text: `${start} ${isFixed ? effect : counterText}`, other: "clock" };
  }
  const effect = `A burst can meet the end of one window and the start of the next, so that up to ${most} pass.`;
  const start =
    align === "clock"
      ? "Windows start on the clock, at multiples of their length (align=clock)."
      : `Windows are calendar ${limit.period ?? "day"}s (align=calendar).`;
  return { text: `${start} ${isFixed ? effect : counterText}`, other: align === "clock" ? "first-request" : null };
}

const counterText = "It makes little difference: the previous window still counts.";

/** The limits, with this alignment for the limit at the index. The default alignment is left out. */
export const withAlign = (limits: readonly LimitInput[], index: number, align: Align): readonly LimitInput[] =>
  limits.map((limit, each) => {
    const { align: _, ...rest } = limit;
    if (each !== index) return limit;
    return align === "clock" ? { ...rest, align } : rest;
  });
