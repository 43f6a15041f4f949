/** The search for the denial of an address, an API key, the id of a key or an instance, and its result in one sentence. */
import type { DenialView, FoundDenials } from "../../../admin/wire.ts";
import { ApiProblem, call } from "../api/client.ts";
import { countOf, durationText, instantText, timeText } from "../parts/text.ts";

type Sought = { readonly instance: string } | { readonly id: string } | { readonly key: string };

const uuid = /^(?:urn:uuid:)?[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;

/**
 * The parts of a search that a text can be, the likeliest first: a UUID may also be an API key, and so may a text with the form
 * of an id or of its beginning.
 */
export function soughtBy(text: string): readonly Sought[] {
  const key = { key: text };
  if (text.toLowerCase().startsWith("urn:uuid:")) return [{ instance: text }];
  if (uuid.test(text)) return [{ instance: text }, key];
  // The page shows the first eight characters of ids, and an ellipsis.
  const [, id] = /^([\w-]{8,43}|[\w-]{43}(?:\.[\w-]{43})+)…?$/.exec(text) ?? [];
  return id === undefined ? [key] : [{ id }, key];
}

/**
 * The first result with a denial, or the last one without.
 * @throws ApiProblem when the search fails, except when the text fits the key of no policy but may be an instance or an id
 */
export async function findDenial(
  text: string,
  { policy, at }: { readonly policy?: string | undefined; readonly at?: string | undefined },
  post: (body: object) => Promise<FoundDenials> = (body) => call<FoundDenials>("POST", "denials/search", { body }),
): Promise<FoundDenials> {
  let last: FoundDenials | null = null;
  for (const sought of soughtBy(text)) {
    try {
      // oxlint-disable-next-line no-await-in-loop -- most searches end with the first answer
      last = await post({ ...sought, ...(policy !== undefined && { policy }), ...(at !== undefined && { at }) });
      if (last.denial !== null || choicesOf(last, text).length > 0) return last;
    } catch (error) {
      if (last === null || !(error instanceof ApiProblem) || error.status !== 422) throw error;
    }
  }
  if (last === null) throw new Error("Enter an address, an API key, the id of a key, or an instance.");
  return last;
}

/** The keys to choose from, when several ids begin with the text. */
export function choicesOf({ denial, keys }: Pick<FoundDenials, "denial" | "keys">, text: string): FoundDenials["keys"] {
  const beginning = text.replace("…", "");
  return denial === null && keys.length > 1 && keys.every(({ id }) => id.startsWith(beginning)) ? keys : [];
}

/** The parameters of the page's address that select what a search has found. Plain keys stay out of the address. */
export interface Selection {
  readonly instance?: string | undefined;
  readonly id?: string | undefined;
  readonly policy?: string;
}

/** The denials that the list shows after a search; null when the search has found nothing, and sought several keys or none. */
export function selectionOf({ denial, keys }: Pick<FoundDenials, "denial" | "keys">): Selection | null {
  if (denial !== null) {
    const instance = keys.length === 0 ? denial.instance : undefined;
    return denial.id === null ? { instance, policy: denial.policy } : { instance, id: denial.id };
  }
  const [id, other] = new Set(keys.map((key) => key.id));
  return id === undefined || other !== undefined ? null : { id };
}

/**
 * The instant around which the list has its rows: that of the found denial, unless it is the newest one. Without a search, the
 * instant in the address of the page.
 */
export function listedAround(
  found: Pick<FoundDenials, "denial" | "near" | "keys"> | null,
  at: string | undefined,
): string | undefined {
  if (found === null || found.denial === null) return at;
  return found.near !== null || found.keys.length === 0 ? found.denial.at : undefined;
}

/** How long an isolate may keep a denial before it reports it, and the time of the report itself. */
const reportedWithinMs = 35_000;

/** Until when a search that has found nothing is repeated. A search for an earlier time is not: the reports have arrived. */
export const searchEndMs = (startMs: number, at: string | undefined): number =>
  (at === undefined ? startMs : Math.min(startMs, Date.parse(at))) + reportedWithinMs;

const farMs = 60_000;

/** Whether the found denial is so far from the asked time that the answer must begin with the distance. */
export const isFar = ({ near }: Pick<FoundDenials, "near">): boolean => near !== null && near.awayMs > farMs;

/** The distance of the found denial from the asked time, with instants in the time zone of the browser; empty without such a time. */
export const nearText = ({ near }: Pick<FoundDenials, "near">): string =>
  near === null ? "" : `${near.text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, timeText)} `;

/** The end of the sentence, after the policy, such as "at 09:41:12 (10 min ago): 5 of 5 per minute used." */
export function denialText(denial: DenialView, nowMs: number): string {
  const { at, lastAt, cause, count } = denial;
  const ago = durationText(Math.max(0, nowMs - Date.parse(at)));
  const more = count === 1 ? "" : ` ${countOf(count, "denial")} like this one until ${timeText(lastAt)}.`;
  return `at ${timeText(at)} (${ago} ago): ${cause}.${more}`;
}

/** The times of the first and the last denial: "09:41:12 – 09:41:40", with the date on another day than `nowMs`. */
export function spanText({ at, lastAt }: Pick<DenialView, "at" | "lastAt">, nowMs: number): string {
  const isToday = new Date(at).toDateString() === new Date(nowMs).toDateString();
  const [from, to] = [timeText(at), timeText(lastAt)];
  return `${isToday ? from : instantText(at)}${from === to ? "" : ` – ${to}`}`;
}

/**
 * Such as "14 denials of this key by login from 09:38:02 to 09:52:10, and the log has earlier ones." Empty for a denial without a key,
 * and for an instance.
 */
export function denialsOfKeyText({
  denial,
  count,
  since,
  until,
  next,
  hasNewer,
  keys,
}: Omit<FoundDenials, "near" | "denials" | "dropped" | "completeSince" | "isOn">): string {
  if (denial === null || denial.id === null || since === null || until === null || keys.length === 0) return "";
  const others = [...(next === null ? [] : ["earlier"]), ...(hasNewer ? ["later"] : [])];
  const more = others.length === 0 ? "" : `, and the log has ${others.join(" and ")} ones`;
  const span = count === 1 ? `at ${timeText(since)}` : `from ${timeText(since)} to ${timeText(until)}`;
  return `${countOf(count, "denial")} of this key by ${denial.policy} ${span}${more}.`;
}

/** Since when the log is complete, and how many denials it lacks. */
export const completenessText = ({ dropped, completeSince }: Pick<FoundDenials, "dropped" | "completeSince">): string =>
  dropped === 0
    ? `The log has every reported denial since ${instantText(completeSince)}.`
    : `The log lacks ${countOf(dropped, "denial")} of the last 24 hours. It is complete since ${instantText(completeSince)}.`;
