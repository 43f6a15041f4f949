/** Checks of the responses to valid proxied requests. */
import { responderOf, hasFieldsOf, jsonOf, remainingInFields } from "./answers.ts";
import type { Answer } from "./connection.ts";
import { everything, hasOriginFields, type FuzzRequest } from "./requests.ts";
import type { FuzzResult } from "./run.ts";

/** A request that is about to be sent. */
export interface PendingRequest {
  /** @returns the faults in the response */
  readonly fault: (answer: Answer) => (string | null)[];
}

export function proxied(request: FuzzRequest, course: FuzzResult): PendingRequest {
  const { ledger, passages } = course;
  const { drawn, ask, charges } = request;
  const sent = ledger.send(charges);
  const { bannable, passage } = drawn;
  const wasBanned = bannable !== undefined && passages.isBanned(bannable);
  const waiting = passage?.kind === "queue" ? passages.enter(passage.key) : null;
  return {
    fault: (answer) => {
      const isLetIn = responderOf(answer) === "the origin" || (ask.fails === true && answer.status === 502);
      waiting?.leave(isLetIn);
      (isLetIn ? course.letIn : course.denied).push(ask.id);
      const unsaid = isLetIn ? faultOfAllowed(request, answer) : faultOfDenied(request, answer);
      if (unsaid !== null) return [unsaid];
      if (charges.length === 0) return [];
      if (isLetIn) {
        const remainingUnits = hasFieldsOf(answer) && !hasOriginFields(ask) ? remainingInFields(answer) : null;
        return [wasBanned ? "allowed during a ban" : null, ...ledger.allow(sent, remainingUnits)];
      }
      const isBan = /abnormal-usage-detected/.test(answer.body);
      // Without its body, a denial by a ban looks like any other denial.
      if (bannable !== undefined && request.method === "HEAD") passages.recordUnknown(bannable);
      else if (bannable !== undefined) passages.recordDenial(bannable, isBan);
      // A ban denies regardless of the remaining units.
      return ledger.deny(sent, isBan ? [] : deniersOf(request, answer));
    },
  };
}

function faultOfAllowed({ ask, charges, drawn, method }: FuzzRequest, answer: Answer): string | null {
  const expected = ask.fails === true ? 502 : ask.status;
  if (answer.status !== expected) return `allowed with status ${answer.status}, expected ${expected}`;
  if (drawn.isBarred === true || method === "TRACE") return "allowed, expected a denial";
  const names = charges.flatMap(({ quotas }) => quotas.map(({ name }) => name));
  const timedNames = drawn.passage === undefined ? [] : [drawn.passage.kind === "slot" ? "slots" : "queue"];
  const unexpected = [...remainingInFields(answer).keys()].find(
    (name) => ![...names, ...timedNames, "of-the-origin"].includes(name),
  );
  return unexpected === undefined ? null : `the fields report "${unexpected}", which does not apply`;
}

function faultOfDenied(request: FuzzRequest, answer: Answer): string | null {
  const { scenario, drawn, method } = request;
  const expected = method === "TRACE" ? 405 : drawn.isBarred === true ? 403 : (scenario.denial ?? 429);
  if (answer.status !== expected) return `denied with ${answer.status}: ${answer.body}`;
  const isDeniable = request.charges.length > 1 || drawn.passage !== undefined;
  const isDenial = method !== "TRACE" && drawn.isBarred !== true;
  return isDenial && !isDeniable ? "denied, though no policy matches it" : null;
}

/** A 429 must list exactly the limits that deny. */
function deniersOf({ drawn }: FuzzRequest, answer: Answer): string[] {
  const named = [...remainingInFields(answer).keys()];
  if (drawn.passage !== undefined) return [];
  const body = Object(jsonOf(answer)) as { "violated-policies"?: string[] };
  const all = [...new Set([...named, ...(body["violated-policies"] ?? [])])];
  return all.length > 0 ? all : [everything.policy];
}
