/** The dependencies and functions that the handlers of the admin API share: they read requests, refuse them, and answer. */
import * as v from "valibot";
import type { Context } from "hono";
import type { AdminRight } from "../policy/vars/secrets.ts";
import type { JwtSettings } from "../policy/vars/jwt.ts";
import type { Policy } from "../policy/policy.ts";
import type { ControlClient } from "../control/isolate/control-client.ts";
import type { KeySealer } from "../control/isolate/key-sealer.ts";
import type { Clock } from "../limiter/clock.ts";
import type { Assets } from "../http/openapi.ts";
import { type Runtime, answerInternalError } from "../http/runtime.ts";
import type { Operator } from "./authenticate.ts";
import type { ControlPlaneCaller } from "./control-plane-caller.ts";
import { type Failure, type FieldError, isFailure, problemResponse } from "../http/wire/problems.ts";
import { fields, integerFrom } from "../validation/problems.ts";
import { errorsOf } from "../http/check/input.ts";
import { isDecodable, readJson } from "../http/check/call.ts";

export interface AdminContext {
  /** The path of the API, such as `/_headgate/api`. */
  readonly apiPath: string;
  /** Undefined when the binding is missing. */
  readonly assets: Assets | undefined;
  readonly runtime: Runtime;
  readonly control: ControlClient;
  /** The policies of the configuration, without runtime rules. */
  readonly policies: readonly Policy[];
  readonly jwt: JwtSettings | null;
  /** One key in this many is in the sample of traffic; null without a sample. */
  readonly sampleOneKeyIn: number | null;
  readonly controlPlane: ControlPlaneCaller;
  readonly sealer: KeySealer;
  readonly clock: Clock;
}

/** The variables of authenticated requests. */
export interface Authenticated {
  Variables: { operator: Operator };
}

export type AuthorizedCall = Context<Authenticated>;

/** @throws CallRefused when no policy of the configuration has the name */
export function policyOf({ policies }: AdminContext, name: string): Policy {
  const policy = policies.find((each) => each.name === name);
  if (policy === undefined) throw new CallRefused({ kind: "unknown-policy" });
  return policy;
}

/** @throws CallRefused when the operator lacks the right */
export function requireRight({ actor, may }: Operator, right: AdminRight): void {
  if (may.has(right)) return;
  const via = actor.via === "access" ? "access" : "token";
  throw new CallRefused({ kind: "operator-not-permitted", right, via });
}

/**
 * @param policy default: the key may be of any policy
 * @throws CallRefused when the text is no partition key, which has 256 bits in base64url for each level of its tree
 */
export function keyIdOf(text: string, policy?: Pick<Policy, "name" | "ancestors">): string {
  if (!/^[\w-]{43}(?:\.[\w-]{43}){0,7}$/.test(text)) throw new CallRefused({ kind: "unknown-key" });
  if (policy === undefined) return text;
  const levels = [...policy.ancestors.map((each) => each.policy), policy.name];
  const given = text.split(".").length;
  if (given === levels.length) return text;
  const missing = levels.slice(given).join(" and ");
  const problem = missing === "" ? `${given} parts are too many` : `the part of ${missing} is missing`;
  const parts = levels.length === 1 ? "1 part" : `${levels.length} parts (${levels.join(", ")})`;
  throw fieldsRefused([{ field: "id", accepted: `the id of a key of ${policy.name}, which has ${parts}; ${problem}` }]);
}

/** An answer in JSON. Each caller must state the type of the value: one of the types in `wire.ts`. */
export const answer = <View extends object = never>(
  value: NoInfer<View>,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response => Response.json(value, { status, headers: { "Cache-Control": "no-store", ...headers } });

export const emptyAnswer = (): Response =>
  new Response(null, { status: 204, headers: { "Cache-Control": "no-store" } });

export const instantText = (atMs: number): string => new Date(atMs).toISOString();

export class CallRefused extends Error {
  override readonly name = "CallRefused";
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.kind);
    this.failure = failure;
  }
}

/** Replaces the error of a refused call in `catch`. An object of an earlier version refuses calls that it lacks. */
export const whenRefused =
  <Value>(value: Value) =>
  (error: unknown): Value => {
    if (error instanceof CallRefused) return value;
    throw error;
  };

/** Several limits in one text can cause equal errors for the same field. Equal errors are reported once. */
export const fieldsRefused = (errors: readonly FieldError[]): CallRefused =>
  new CallRefused({ kind: "fields-invalid", errors: errors.filter((each, index) => placeOf(errors, each) === index) });

const placeOf = (errors: readonly FieldError[], { field, accepted: wanted }: FieldError): number =>
  errors.findIndex((each) => each.field === field && each.accepted === wanted);

/** @throws CallRefused when the value is a failure */
export function accepted<Value extends object>(value: Value | Failure): Value {
  if (isFailure<Failure>(value)) throw new CallRefused(value);
  return value;
}

export const answerRefusal = (error: unknown): Response =>
  error instanceof CallRefused ? problemResponse(error.failure) : answerInternalError(error);

/**
 * `*` matches every state. Cloudflare and other proxies make the ETag of a response weak when they compress it:
 * https://developers.cloudflare.com/cache/reference/etag-headers/. The weak form therefore matches, too: it names the same state.
 * @throws CallRefused when the field is missing or names no current state
 */
export function requireMatch(request: Request, etag: string): void {
  const field = request.headers.get("If-Match")?.trim() ?? "";
  if (field === "") throw new CallRefused({ kind: "precondition-required" });
  const named = field.split(",").map((each) => each.trim().replace(/^W\//, ""));
  if (field !== "*" && !named.includes(etag)) {
    throw new CallRefused({ kind: "precondition-failed", etag });
  }
}

const limitBytes = 16 * 1024;
export const mergePatch = "application/merge-patch+json";

/** @throws CallRefused when the body is not JSON of at most 16 KiB */
export async function bodyOf({ req }: AuthorizedCall, types?: readonly string[]): Promise<unknown> {
  return accepted(await readJson(req.raw, limitBytes, types)).json;
}

/** @throws CallRefused with an error for each invalid field */
export function parsed<Output>(schema: v.GenericSchema<unknown, Output>, input: unknown): Output {
  const result = v.safeParse(schema, input);
  if (result.success) return result.output;
  throw fieldsRefused(errorsOf(result.issues));
}

/** Reads the query. A parameter that stands twice is invalid. */
export function queryIn<const Entries extends v.ObjectEntries>(c: AuthorizedCall, entries: Entries) {
  if (!isDecodable(c.req.url)) throw new CallRefused({ kind: "query-malformed" });
  const values = Object.entries(c.req.queries()).map(([name, all]) => [name, all.length === 1 ? all[0] : all]);
  return parsed(fields(entries), Object.fromEntries(values));
}

export const text = (acceptedText: string) => v.pipe(v.string(acceptedText), v.nonEmpty(acceptedText));

export const policyNameText = text("the name of a policy");

/** An integer in digits. */
export const integerText = (least: number, most: number) =>
  v.pipe(
    v.string(`an integer from ${least} to ${most}`),
    v.regex(/^\d{1,15}$/, `an integer from ${least} to ${most}`),
    v.transform(Number),
    integerFrom(least, most),
  );

const acceptedCursor = "the cursor of the previous page";

/** The query parameters of a page. @param cursor the form of its cursors */
export const pageEntries = (cursor: RegExp) => ({
  cursor: v.exactOptional(v.pipe(v.string(acceptedCursor), v.regex(cursor, acceptedCursor))),
  limit: v.optional(integerText(1, 200), "50"),
});

export const flagText = v.optional(
  v.pipe(
    v.picklist(["true", "false"], '"true" or "false"'),
    v.transform((flag) => flag === "true"),
  ),
  "false",
);

export const acceptedInstant = 'an instant such as "2026-11-22T18:30:00Z" (RFC 3339)';
/** Date, time, and a zone: RFC 3339, section 5.6. */
const instantForm = /^(\d{4}-\d{2}-\d{2})[Tt ]([01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})$/;

/** `Date.parse` reads the 30th of February as the 2nd of March. */
function isDateOfCalendar(written: string): boolean {
  const [, date = ""] = instantForm.exec(written) ?? [];
  const atMs = Date.parse(`${date}T00:00:00Z`);
  return Number.isSafeInteger(atMs) && new Date(atMs).toISOString().startsWith(date);
}

/** An instant in milliseconds since the Unix epoch. */
export const instant = v.pipe(
  v.string(acceptedInstant),
  v.check(isDateOfCalendar, acceptedInstant),
  v.transform((written) => Date.parse(written.toUpperCase().replace(" ", "T"))),
  v.check((atMs) => Number.isSafeInteger(atMs), acceptedInstant),
);

/**
 * The link to the next page, from the query of this one; none on the last page.
 * @param path the documented path of the list. The request's own path is not used: in a link, a path that begins with
 * two slashes would name a host
 */
export function nextLink(
  { req }: AuthorizedCall,
  path: string,
  cursor: string | null,
): Readonly<Record<string, string>> {
  if (cursor === null) return {};
  const { searchParams } = new URL(req.url);
  searchParams.set("cursor", cursor);
  return { Link: `<${path}?${searchParams.toString()}>; rel="next"` };
}
