/** Calls Headgate over a service binding of a Worker. */
import {
  HeadgateError,
  type CheckAnswer,
  type CheckInput,
  type ForgetInput,
  type LookInput,
  type Problem,
  type ReserveAnswer,
  type ReserveInput,
  type SettleAnswer,
  isProblem,
} from "./messages.ts";
import type { Transport } from "./attempts.ts";

/** A service binding with `entrypoint = "Headgate"`. */
export interface HeadgateService {
  /** Charges the cost if the limits allow it. */
  check(input: CheckInput): Promise<CheckAnswer>;
  /** Returns what `check` would return, and charges nothing. */
  look(input: LookInput): Promise<CheckAnswer>;
  /** Resets a key under one policy. */
  forget(input: ForgetInput): Promise<void>;
  /** Charges a cost that `settle` can correct. */
  reserve(input: ReserveInput): Promise<ReserveAnswer>;
  /** Corrects a reservation to its actual cost. */
  settle(input: { readonly id: string; readonly cost: number }): Promise<SettleAnswer>;
}

/** The service binding as `wrangler types` declares it when Headgate's source is not available. */
export interface UntypedService {
  fetch(...input: never[]): unknown;
}

const placeOf = (operation: string): string => `service.${operation}()`;

export function serviceTransport(service: HeadgateService | UntypedService): Transport {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a binding has the methods of its entrypoint, whatever its type
  const methods = service as unknown as Readonly<Record<string, (input: object) => Promise<unknown>>>;
  return {
    placeOf,
    heldBackMs: () => 0,
    async send({ operation, input, isIdempotent }) {
      try {
        return await methods[operation]?.(input);
      } catch (cause) {
        const message = cause instanceof Error ? cause.message : String(cause);
        if (message.includes("does not implement the method")) {
          throw new TypeError(
            `service: expected a service binding with entrypoint = "Headgate", got one without ${operation}()`,
            { cause },
          );
        }
        const problem = problemIn(cause);
        const status = problem?.status ?? statusIn(message);
        throw new HeadgateError(`${placeOf(operation)}: ${message}`, {
          ...(status !== undefined && { status }),
          problem,
          isSafeToRepeat: isIdempotent || (status !== undefined && status < 500),
          cause,
        });
      }
    },
  };
}

function problemIn(error: unknown): Problem | null {
  const problem = error instanceof Error && "problem" in error ? error.problem : null;
  return isProblem(problem) ? problem : null;
}

/** The status of each error that Headgate's service throws, by the title of its problem. */
const statuses: Readonly<Record<string, number>> = {
  "Not Found": 404,
  "Unprocessable Content": 422,
  "Too Many Requests": 429,
  "Internal Server Error": 500,
  "Service Unavailable": 503,
};

/** Before the compatibility date 2026-04-21, a Worker receives errors without their fields. */
function statusIn(message: string): number | undefined {
  const [title = ""] = message.split(":");
  return statuses[title];
}
