/** The routes at and below `CHECK_PATH`, for callers that enforce limits themselves, and the limits on these calls. */
import type { Context, Handler } from "hono";
import { Hono } from "hono/tiny";
import type { Right } from "../../policy/vars/secrets.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { matchingPolicies } from "../../policy/compiled-policy.ts";
import {
  type DenyOption,
  type Reader,
  readBatch,
  readCheck,
  readDenyQuery,
  readEmptyQuery,
  readForget,
  readForwardQuery,
  readLookQuery,
  readReserve,
  readSettle,
} from "./input.ts";
import { enforcePolicies, reservationTtlMs } from "../proxy/enforce.ts";
import { authorizer, type Caller, readInput, readQuery } from "./call.ts";
import { answerText, type AnswerText, decidedText } from "./answer.ts";
import { attributesOf } from "../attributes.ts";
import {
  type CallerContext,
  chargeCheck,
  decideBatch,
  forgetKey,
  look,
  openReservation,
  settleReservation,
} from "./operations.ts";
import { forwardAuth } from "./forward-auth.ts";
import { type Assets, openApiDocument } from "../openapi.ts";
import type { RequestCounting } from "../record-outcomes.ts";
import { answerInternalError, type Runtime, waitUntilFrom } from "../runtime.ts";
import { type Failure, isFailure, problemDetails, problemResponse } from "../wire/problems.ts";
import { hasRateLimitFields } from "../wire/rate-limit-fields.ts";

/** Answers any call of one operation. The promise never rejects. */
export type AnswerCall = (request: Request, waitUntil: WaitUntil) => Promise<Response>;

/** The largest body of a request about one check. */
const limitBytes = 16 * 1024;

const batchLimitBytes = 128 * 1024;

const documentPath = "/openapi.json";

/** Answers the operations of `/check`, for their routes and for the fast path of `app.ts`. */
export function createCheck(runtime: Runtime) {
  const authorize = authorizer(runtime);
  /** Nothing is read before the caller is authorized and the limits on calls admit the call. */
  const operation =
    <Input extends object>(
      right: Right,
      read: (request: Request, caller: Caller) => Input | Failure | Promise<Input | Failure>,
      answer: (call: CallerContext, input: Input, request: Request, caller: Caller) => Promise<Response>,
    ): AnswerCall =>
    async (request, waitUntil) => {
      try {
        const caller = authorize(request.headers, right);
        if (isFailure(caller)) return problemResponse(caller);
        return await limitSelf(runtime, request, waitUntil, async () => {
          const input = await read(request, caller);
          if (isFailure<Failure>(input)) return problemResponse(input);
          return answer({ runtime, tenant: caller.holder.tenant, waitUntil }, input, request, caller);
        });
      } catch (error) {
        return answerInternalError(error);
      }
    };
  return {
    check: operation("check", bodyIn(limitBytes, readDenyQuery, readCheck), async (call, check) => {
      const decided = await chargeCheck(call, check);
      return respond(check, isFailure(decided) ? decided : decidedText(decided));
    }),
    look: operation("look", queryIn(readLookQuery), async (call, check) =>
      respond(check, answerText(await look(call, check))),
    ),
    forget: operation("forget", queryIn(readForget), async (call, reference) => {
      const failure = await forgetKey(call, reference);
      return failure === null ? new Response(null, { status: 204 }) : problemResponse(failure);
    }),
    forward: operation("check", queryIn(readForwardQuery), forwardAuth),
    batch: operation("check", bodyIn(batchLimitBytes, readEmptyQuery, readBatch), async (call, { checks }) => {
      const answers = await decideBatch(call, checks);
      return okayWith({ results: answers.map((each) => (isFailure(each) ? { problem: problemDetails(each) } : each)) });
    }),
    reserve: operation("check", bodyIn(limitBytes, readDenyQuery, readReserve), async (call, check) =>
      respond(check, answerText(await openReservation(call, check))),
    ),
    settle: operation("check", bodyIn(limitBytes, readEmptyQuery, readSettle), async (call, settled) => {
      const answer = await settleReservation(call, settled);
      return isFailure(answer) ? problemResponse(answer) : okayWith(answer);
    }),
  };
}

const queryIn =
  <Input extends object>(read: Reader<Input>) =>
  (request: Request): Input | Failure =>
    readQuery(request, read);

const bodyIn =
  <Input extends object, Options extends object>(
    mostBytes: number,
    readOptions: Reader<Options>,
    read: Reader<Input>,
  ) =>
  (request: Request, caller: Caller): Promise<(Input & Partial<Options>) | Failure> =>
    readInput(request, caller, mostBytes, readOptions, read);

export type CheckOperations = ReturnType<typeof createCheck>;

const callCounting: RequestCounting = { countsAdmitted: false };

/**
 * Charges the policies that limit `/check` itself, and answers the request or denies it. Call this for authorized calls
 * only: no others are charged or keep the runtime rules up to date.
 */
async function limitSelf(
  runtime: Runtime,
  request: Request,
  waitUntil: WaitUntil,
  answer: () => Promise<Response>,
): Promise<Response> {
  runtime.control?.touch(waitUntil);
  if (runtime.selfPolicies.length === 0) return answer();
  const attributes = attributesOf(request);
  return enforcePolicies(request, () => matchingPolicies(runtime.selfPolicies, attributes), {
    runtime,
    attributes,
    tenant: null,
    reservationTtlMs,
    // The rate limit fields of an answer describe the decision of the check, not that of the self limits.
    hasFinalFields: hasRateLimitFields,
    counting: callCounting,
    // The charge of the call is also settled when the answer fails.
    forward: () => answer().catch(answerInternalError),
    waitUntil,
  });
}

/** Shared by all answers: a Response copies its headers. */
const okay = { headers: { "Content-Type": "application/json", "Cache-Control": "no-store" } };

const okayWith = (value: object): Response => new Response(JSON.stringify(value), okay);

/** 200 with the decision, whether allowed or denied. With `deny`, a denial has the status in `deny`. */
function respond({ deny }: DenyOption, answer: AnswerText | Failure): Response {
  if (isFailure(answer)) return problemResponse(answer);
  const { allowed, headers, json } = answer;
  if (deny === undefined || allowed) return new Response(json, okay);
  return new Response(json, { status: deny, headers: { ...okay.headers, ...headers } });
}

const by =
  (answer: AnswerCall): Handler =>
  (c) =>
    answer(c.req.raw, waitUntilFrom(c));

/** The routes at and below `CHECK_PATH`. `/health` and `/openapi.json` are open to all; the others require a token. */
export function checkRoutes(runtime: Runtime, check: CheckOperations, assets: Assets | undefined) {
  return new Hono()
    .get("/health", () => okayWith({ status: "ok" }))
    .get(documentPath, (c) => readDocument(c, runtime, assets))
    .get("/", by(check.look))
    .post("/", by(check.check))
    .delete("/", by(check.forget))
    .get("/forward", by(check.forward))
    .post("/batch", by(check.batch))
    .post("/reserve", by(check.reserve))
    .post("/settle", by(check.settle))
    .all("/health", methodNotAllowed("GET", "HEAD"))
    .all(documentPath, methodNotAllowed("GET", "HEAD"))
    .all("/", methodNotAllowed("GET", "HEAD", "POST", "DELETE"))
    .all("/reserve", methodNotAllowed("POST"))
    .all("/settle", methodNotAllowed("POST"))
    .all("/batch", methodNotAllowed("POST"))
    .all("/forward", methodNotAllowed("GET", "HEAD"))
    .all("/*", () => problemResponse({ kind: "unknown-path" }));
}

/** The OpenAPI document of this deployment. If looks need no token here, it marks the token as optional for them. */
async function readDocument(c: Context, { isLookOpen }: Runtime, assets: Assets | undefined): Promise<Response> {
  const document = await openApiDocument(assets, "check", c.req.path.slice(0, -documentPath.length));
  if (isFailure(document)) return problemResponse(document);
  const root = document.paths["/"];
  const get = { ...root?.["get"], security: [{}, ...document.security] };
  const served = isLookOpen ? { ...document, paths: { ...document.paths, "/": { ...root, get } } } : document;
  return okayWith(served);
}

const methodNotAllowed =
  (...allowed: string[]) =>
  () =>
    problemResponse({ kind: "method-not-allowed", allowed });
