/** The service binding for other Workers on the account: the operations of `/check` with the same shapes. */
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import {
  type CheckInput,
  type ForgetInput,
  readCheck,
  type Reader,
  readForget,
  readReserve,
  readSettle,
  type ReserveInput,
  type SettleInput,
} from "./input.ts";
import type { CheckAnswer } from "./answer.ts";
import {
  type CallerContext,
  decideCheck,
  forgetKey,
  look,
  openReservation,
  type ReserveAnswer,
  type SettleAnswer,
  settleReservation,
} from "./operations.ts";
import { failureBy, type Runtime } from "../runtime.ts";
import { type Failure, isFailure, problemError } from "../wire/problems.ts";

/** Every method throws an `Error` with problem details in `problem` where `/check` would answer with that problem. */
export interface Service {
  readonly check: (input: CheckInput, waitUntil: WaitUntil) => Promise<CheckAnswer>;
  readonly look: (input: CheckInput, waitUntil: WaitUntil) => Promise<CheckAnswer>;
  readonly forget: (input: ForgetInput, waitUntil: WaitUntil) => Promise<void>;
  readonly reserve: (input: ReserveInput, waitUntil: WaitUntil) => Promise<ReserveAnswer>;
  readonly settle: (input: SettleInput, waitUntil: WaitUntil) => Promise<SettleAnswer>;
}

export function createService(runtime: Runtime): Service {
  const service =
    <Request extends object, Answer extends object>(
      read: Reader<Request>,
      operation: (call: CallerContext, request: Request) => Promise<Answer | Failure>,
    ) =>
    (input: unknown, waitUntil: WaitUntil): Promise<Answer> =>
      perform(read, input, (request) => {
        // Starts a beat of the control plane alongside the operation if one is due.
        runtime.control?.touch(waitUntil);
        // Other Workers use the keys of the proxy, and can settle one another's reservations.
        return operation({ runtime, tenant: null, waitUntil }, request);
      });
  const forget = service(readForget, async (call, reference) => (await forgetKey(call, reference)) ?? {});
  return {
    check: service(readCheck, decideCheck),
    look: service(readCheck, look),
    forget: async (...input) => void (await forget(...input)),
    reserve: service(readReserve, openReservation),
    settle: service(readSettle, settleReservation),
  };
}

/** The service of a Worker whose configuration is invalid. */
export function brokenService(failure: Failure): Service {
  const refuse = (): Promise<never> => Promise.reject(problemError(failure));
  return { check: refuse, look: refuse, forget: refuse, reserve: refuse, settle: refuse };
}

/** @throws the problem when the input is invalid or the operation fails */
export async function perform<Request extends object, Answer extends object>(
  read: Reader<Request>,
  input: unknown,
  operation: (request: Request) => Promise<Answer | Failure>,
): Promise<Answer> {
  let answer: Answer | Failure;
  try {
    const request = read(input);
    answer = isFailure(request) ? request : await operation(request);
  } catch (error) {
    answer = failureBy(error);
  }
  if (isFailure(answer)) throw problemError(answer);
  return answer;
}
