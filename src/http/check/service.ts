/** What other Workers on the account may call: the operations of `/check`, in the same shapes. */
import type { WaitUntil } from "../../limiter/client/object-caller.ts";
import { errorText, report } from "../../observability/events.ts";
import {
  type CheckInput,
  type ForgetInput,
  readForget,
  readReserve,
  readSettle,
  readSpend,
  type ReserveInput,
  type Settle,
} from "./input.ts";
import {
  type Answer,
  check,
  forget,
  look,
  reserve,
  type ReserveAnswer,
  settle,
  type SettleAnswer,
} from "./operations.ts";
import type { Runtime } from "../runtime.ts";
import { type Failure, isFailure, problemError } from "../wire/problems.ts";

export type SettleInput = Settle;

/** Every method throws an `Error` with the problem details in `problem` where `/check` would answer with them. */
export interface Service {
  check(input: CheckInput, waitUntil: WaitUntil): Promise<Answer>;
  look(input: CheckInput): Promise<Answer>;
  forget(input: ForgetInput): Promise<void>;
  reserve(input: ReserveInput, waitUntil: WaitUntil): Promise<ReserveAnswer>;
  settle(input: SettleInput): Promise<SettleAnswer>;
}

/** Workers on the account are no tenants: they speak of the proxy's keys, and what one reserves another may settle. */
const tenant = null;

export function createService(runtime: Runtime): Service {
  return {
    check: (input, waitUntil) =>
      answered(readSpend, input, (asked) => check(runtime, asked, tenant, waitUntil)),
    look: (input) => answered(readSpend, input, (asked) => look(runtime, asked, tenant)),
    forget: async (input) => {
      await answered(
        readForget,
        input,
        async (asked) => (await forget(runtime, asked, tenant)) ?? {},
      );
    },
    reserve: (input, waitUntil) =>
      answered(readReserve, input, (asked) => reserve(runtime, asked, tenant, waitUntil)),
    settle: (input) => answered(readSettle, input, (asked) => settle(runtime, asked, tenant)),
  };
}

/** The service of a Worker that cannot start. */
export function brokenService(failure: Failure): Service {
  const refuse = (): Promise<never> => Promise.reject(problemError(failure));
  return { check: refuse, look: refuse, forget: refuse, reserve: refuse, settle: refuse };
}

async function answered<Asked extends object, Given extends object>(
  read: (input: unknown) => Asked | Failure,
  input: unknown,
  act: (asked: Asked) => Promise<Given | Failure>,
): Promise<Given> {
  const answer = await attempt(async () => {
    const asked = read(input);
    return isFailure(asked) ? asked : act(asked);
  });
  if (isFailure(answer)) throw problemError(answer);
  return answer;
}

/** A fault of ours is told to callers without what it was. */
async function attempt<Given>(act: () => Promise<Given>): Promise<Given | Failure> {
  try {
    return await act();
  } catch (error) {
    report({ event: "internal-error", error: errorText(error) });
    return { kind: "internal" };
  }
}
