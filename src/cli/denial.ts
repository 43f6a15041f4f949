/** `npm run explain -- --at` and `--instance`: prints a denial from the log of denials. */
import { type AdminApi, adminProblemText, askAdmin, explainBody, type ExplainValues } from "./admin-api.ts";
import { CommandError } from "./command.ts";
import type { ReceivedAnswer } from "./request.ts";
import { parseDuration, waitText } from "../strategies/index.ts";
import { isRecord } from "../validation/json.ts";

export interface DenialValues extends ExplainValues {
  readonly at?: string | undefined;
  readonly instance?: string | undefined;
}

const acceptedTime = 'a duration before now such as "10m", or an instant such as "2026-11-22T18:30:00Z"';

/**
 * The body of the search.
 * @throws CommandError when the options do not fit together
 */
export function denialBody({ at, instance, ...values }: DenialValues, nowMs: number): object {
  const atMs = at === undefined ? null : instantOf(at, nowMs);
  const time = atMs === null ? {} : { at: new Date(atMs).toISOString() };
  const { attribute = [], policy, key = [], id } = values;
  if (attribute.length > 0) throw new CommandError("--attribute: expected no value with --at or --instance.");
  if (instance !== undefined) {
    if (key.length > 0 || id !== undefined) throw new CommandError("Expected either --instance or a key, got both.");
    return { instance, policy, ...time };
  }
  if (key.length === 0 && id === undefined && policy === undefined) {
    throw new CommandError("Expected --key, --id or --instance with --at.");
  }
  return { ...explainBody({ ...values, policy: policy ?? "" }), policy, ...time };
}

function instantOf(text: string, nowMs: number): number {
  const agoMs = parseDuration(text);
  const atMs = agoMs === null ? Date.parse(text) : nowMs - agoMs;
  if (Number.isFinite(atMs) && (agoMs !== null || /^\d{4}-/.test(text))) return atMs;
  throw new CommandError(`--at: expected ${acceptedTime}, got "${text}"`);
}

/**
 * The denial as lines for a terminal.
 * @throws CommandError that says what to do, when the server does not answer the search
 */
export async function fetchDenial(api: AdminApi, body: object, nowMs: number): Promise<readonly string[]> {
  const received = await askAdmin(api, "/denials/search", { method: "POST", body });
  const { status, json } = received;
  if (status !== 200) {
    const { errors } = json;
    const invalid = status === 422 && Array.isArray(errors) ? errors.filter(isRecord) : [];
    const texts = invalid.map(({ field, accepted }) => `--${String(field)}: expected ${String(accepted)}`);
    const policy = String(Reflect.get(body, "policy") ?? "");
    throw new CommandError(texts.length > 0 ? texts.join("\n") : await adminProblemText(api, policy, received));
  }
  return denialLines(json, Reflect.get(body, "id"), nowMs);
}

function denialLines(json: ReceivedAnswer["json"], sought: unknown, nowMs: number): readonly string[] {
  const { denial, dropped, completeSince, isOn } = json;
  if (isOn === false) return ['Denials are not logged: DENIALS is "off".'];
  const log =
    Number(dropped) > 0
      ? `The log lacks ${String(dropped)} denials of the last 24 hours. It is complete since ${String(completeSince)}.`
      : `The log has every denial since ${String(completeSince)}.`;
  if (!isRecord(denial)) return [...(choices(json, sought) ?? ["The log has no such denial."]), log];
  const { policy, at, lastAt, cause, instance, id } = denial;
  const { near } = json;
  return [
    `Denied by ${String(policy)} at ${String(at)} (${waitText(Math.max(0, nowMs - Date.parse(String(at))))} ago): ${String(cause)}.`,
    ...(isRecord(near) ? [String(near["text"])] : []),
    ...(denial["count"] === 1 ? [] : [`${String(denial["count"])} denials like this one until ${String(lastAt)}.`]),
    ...(typeof id === "string" ? [countLine(json), `Key ${id}.`] : []),
    `Instance ${String(instance)}.`,
    log,
  ];
}

/** The denials of the key in the part of the log that the answer has. */
function countLine({ count, since, until, next, hasNewer }: ReceivedAnswer["json"]): string {
  const others = [...(typeof next === "string" ? ["earlier"] : []), ...(hasNewer === true ? ["later"] : [])];
  const more = others.length === 0 ? "" : `, and the log has ${others.join(" and ")} ones`;
  const end = typeof until === "string" ? ` until ${until}` : "";
  return `${String(count)} denials of this key since ${String(since)}${end}${more}.`;
}

/** The keys whose ids have the beginning that was sought; null unless there are several. */
function choices({ keys }: ReceivedAnswer["json"], sought: unknown): readonly string[] | null {
  const found = Array.isArray(keys) ? keys.filter(isRecord) : [];
  if (typeof sought !== "string" || found.every(({ id }) => id === sought) || found.length < 2) return null;
  return [
    `The ids of several keys begin with ${sought}. Repeat the search with one of them:`,
    ...found.map(({ policy, id }) => `--policy ${String(policy)} --id ${String(id)}`),
  ];
}
