/** Reads what a caller of `/check` asks for, from the query and the body; what is wrong with them is told at once. */
import type { Context, MiddlewareHandler, Next } from "hono";
import { bodyLimit } from "hono/body-limit";
import { every } from "hono/combine";
import type { Authorized } from "./auth.ts";
import { readBody } from "./check-input.ts";
import { type Failure, type FieldsInvalid, isFailure, problemResponse } from "./problems.ts";

type Queries = Record<string, string[]>;

/** `c.req.valid("query")` is what is asked for; the type of what is sent is for typed clients. */
// Clients are told by it what to send; nothing here is.
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
export const queried = <Sent extends object, Asked extends object>(
  read: (queries: Queries) => Asked | FieldsInvalid,
): MiddlewareHandler<Authorized, string, { in: { query: Sent }; out: { query: Asked } }> =>
  async function queryRead(c, next) {
    if (!isDecodable(c.req.url)) return problemResponse({ kind: "query-malformed" });
    const asked = read(c.req.queries());
    if (isFailure(asked)) return problemResponse(asked);
    c.req.addValidatedData("query", asked);
    return next();
  };

/** What stands for no text is left as it is by the query's reader: different queries would name one key. */
function isDecodable(url: string): boolean {
  try {
    decodeURIComponent(url);
    return true;
  } catch {
    return false;
  }
}

/** The same of `c.req.valid("json")`, of a request with a body of at most so many bytes. */
// Clients are told by it what to send; nothing here is.
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
export const posted = <Sent extends object, Asked extends object, Options extends object>(
  limitBytes: number,
  readQuery: (queries: Queries) => Options | FieldsInvalid,
  read: (json: unknown) => Asked | FieldsInvalid,
): MiddlewareHandler<
  Authorized,
  string,
  { in: { json: Sent }; out: { json: Options & Asked } }
> => {
  return every(sized(limitBytes), async function bodyRead(c: Context<Authorized>, next: Next) {
    const asked = await askedFor(c, readQuery, read);
    if (isFailure(asked)) return problemResponse(asked);
    if (bringsLimits(asked) && !c.var.holder.may.has("adhoc")) {
      return problemResponse({ kind: "not-permitted", right: "adhoc" });
    }
    c.req.addValidatedData("json", asked);
    return next();
  });
};

/** What comes in chunks is read here, and may break off. */
function sized(limitBytes: number): MiddlewareHandler {
  const limited = bodyLimit({
    maxSize: limitBytes,
    onError: () => problemResponse({ kind: "body-too-large", limitBytes }),
  });
  return async function bodySized(c, next) {
    try {
      return await limited(c, next);
    } catch {
      return problemResponse({ kind: "body-malformed" });
    }
  };
}

async function askedFor<Asked extends object, Options extends object>(
  c: Context,
  readQuery: (queries: Queries) => Options | FieldsInvalid,
  read: (json: unknown) => Asked | FieldsInvalid,
): Promise<(Options & Asked) | Failure> {
  const options = readQuery(c.req.queries());
  const body = await readBody(c.req.raw);
  if (isFailure(body)) return body;
  const asked = read(body.json);
  if (!isFailure(asked) && !isFailure(options)) return { ...options, ...asked };
  const errors = [asked, options].flatMap((each) =>
    isFailure<FieldsInvalid>(each) ? each.errors : [],
  );
  return { kind: "fields-invalid", errors };
}

const bringsLimits = (asked: object): boolean =>
  "adhoc" in asked ||
  ("checks" in asked && Array.isArray(asked.checks) && asked.checks.some(bringsLimits));
