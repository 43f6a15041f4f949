/** Calls Headgate over a service binding of a Worker. */
import { HeadgateError } from "./headgate-error.ts";
import type {
  CheckAnswer,
  CheckInput,
  ForgetInput,
  LookInput,
  Problem,
  ReserveAnswer,
  ReserveInput,
  SettleAnswer,
} from "./messages.ts";
import { isProblem } from "./read-answer.ts";
import type { Transport } from "./transport.ts";

/** A service binding with `entrypoint = "Headgate"`. */
export interface HeadgateService {
  check(input: CheckInput): Promise<CheckAnswer>;
  look(input: LookInput): Promise<CheckAnswer>;
  forget(input: ForgetInput): Promise<void>;
  reserve(input: ReserveInput): Promise<ReserveAnswer>;
  settle(input: { readonly id: string; readonly cost: number }): Promise<SettleAnswer>;
}

/** The same binding as `wrangler types` declares it without Headgate's source. */
export interface UntypedService {
  fetch(...input: never[]): unknown;
}

const placeOf = (operation: string): string => `service.${operation}()`;

export function serviceTransport(service: HeadgateService | UntypedService): Transport {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a binding has the methods of its entrypoint, whatever its type
  const methods = service as unknown as Readonly<
    Record<string, (input: object) => Promise<unknown>>
  >;
  return {
    placeOf,
    heldBackMs: () => 0,
    async send({ operation, input, isIdempotent }) {
      const place = placeOf(operation);
      try {
        return await methods[operation]?.(input);
      } catch (cause) {
        const problem = problemIn(cause);
        const isRejected = problem !== null && problem.status < 500;
        throw new HeadgateError(`${place}: ${messageOf(cause)}`, {
          ...(problem !== null && { status: problem.status }),
          problem,
          isSafeToRepeat: isIdempotent || isRejected,
          cause,
        });
      }
    },
  };
}

/** Null where the compatibility date of the Worker is too old for errors with fields. */
function problemIn(error: unknown): Problem | null {
  const problem = error instanceof Error && "problem" in error ? error.problem : null;
  return isProblem(problem) ? problem : null;
}

function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const isOtherEntrypoint = message.includes("does not implement the method");
  return isOtherEntrypoint
    ? `${message} Expected a service binding with entrypoint = "Headgate".`
    : message;
}
