/** Where the windows of a limit start, in words, and the same limits with their windows elsewhere. */
import { type Limit, type LimitInput, readLimits } from "../../../strategies/index.ts";
import { compiledLimit } from "../../../strategies/compiled-limit.ts";
import { numberText } from "../../app/parts/text.ts";
import { laneLimitOf } from "./lanes.ts";

type Align = "first-request" | "clock";

interface WindowNote {
  /** A sentence on the start of the windows, and one on what can pass because of it. */
  readonly text: string;
  /** The alignment that a click sets; null for calendar windows. */
  readonly other: Align | null;
}

const otherAlign: Readonly<Record<Align, Align>> = {
  "first-request": "clock",
  clock: "first-request",
};

const isAlign = (align: unknown): align is Align => align === "first-request" || align === "clock";

/** One for each valid limit; null for strategies whose windows have no start. */
export const windowNotesOf = (limits: readonly LimitInput[]): readonly (WindowNote | null)[] =>
  readLimits(limits, {}, () => {}).map(noteOf);

function noteOf(written: Limit): WindowNote | null {
  const { limit, strategy } = compiledLimit(written);
  const align: unknown = Reflect.get(limit, "align");
  if (align === undefined || Reflect.get(limit, "elastic") === true) return null;
  const effect = strategy.name === "fixed-window" ? edgeText(align, written) : counterText;
  const text = `${startText(align, limit)} ${effect}`;
  return { text, other: isAlign(align) ? otherAlign[align] : null };
}

function startText(align: unknown, { period = "day" }: Limit): string {
  if (align === "first-request") return "A window starts with the first request of a client (align=first-request).";
  if (align === "clock") return "Windows start on the clock, at multiples of their length (align=clock).";
  return `Windows are calendar ${period}s (align=calendar).`;
}

const counterText = "It makes little difference: the previous window still counts.";

function edgeText(align: unknown, written: Limit): string {
  const lane = laneLimitOf(written);
  const [limit, most] = [numberText(lane.limit), numberText(lane.mostPerWindow)];
  return align === "first-request"
    ? `A burst from a new client meets one window, so that ${limit} pass; ${most} can pass around the end of a window that is already open.`
    : `A burst can meet the end of one window and the start of the next, so that up to ${most} pass.`;
}

/** The limits, with this alignment for one of them. The default is not written. */
export const withAlign = (limits: readonly LimitInput[], index: number, align: Align): readonly LimitInput[] =>
  limits.map((limit, each) => {
    const { align: _, ...rest } = limit;
    if (each !== index) return limit;
    return align === "clock" ? { ...rest, align } : rest;
  });
