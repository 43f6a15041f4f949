/** Answers `POST /check`. The Hono route and the fast path of `app.ts` both call this function. */
import type { CheckToken } from "../../policy/vars/secrets.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { serializedAnswer } from "./answers.ts";
import { authorizer } from "./auth.ts";
import { readCheck, readDenyQuery } from "./input.ts";
import { decideCheck } from "./operations.ts";
import { readInput } from "./read-request.ts";
import { answerInternalError, type Runtime } from "../runtime.ts";
import { limitSelf } from "./self-limits.ts";
import { respond } from "./serialized-answer.ts";
import { isFailure, problemResponse } from "../wire/problems.ts";

/** The largest body of a request about one check. */
export const limitBytes = 16 * 1024;

/** Answers any `POST /check`. The promise never rejects. */
export type AnswerCheck = (request: Request, waitUntil: WaitUntil) => Promise<Response>;

export function createCheck(runtime: Runtime): AnswerCheck {
  const authorize = authorizer(runtime);
  return async function check(request, waitUntil) {
    try {
      const caller = authorize(request.headers, "check");
      if (isFailure(caller)) return problemResponse(caller);
      runtime.control?.touch(waitUntil);
      const answer = (): Promise<Response> => answerCheck(runtime, request, caller.holder, waitUntil);
      if (runtime.selfPolicies.length === 0) return await answer();
      return await limitSelf(runtime, request, waitUntil, () => answer().catch(answerInternalError));
    } catch (error) {
      return answerInternalError(error);
    }
  };
}

async function answerCheck(
  runtime: Runtime,
  request: Request,
  holder: CheckToken,
  waitUntil: WaitUntil,
): Promise<Response> {
  const check = await readInput(request, holder, limitBytes, readDenyQuery, readCheck);
  if (isFailure(check)) return problemResponse(check);
  const deciding = decideCheck(runtime, check, holder.tenant, waitUntil);
  const decided = deciding instanceof Promise ? await deciding : deciding;
  return respond(check, isFailure(decided) ? decided : serializedAnswer(decided));
}
