/** Serializes the answers of `/check`. A denial is a successful check: 200, unless the caller wants another status. */
import type { CheckAnswer } from "./answers.ts";
import type { DenyOption } from "./input.ts";
import { type Failure, isFailure, problemResponse } from "../wire/problems.ts";
import type { RateLimitFields } from "../wire/rate-limit-fields.ts";

/** An answer as JSON, with the members that its response needs. */
export interface SerializedAnswer {
  readonly allowed: boolean;
  readonly headers: RateLimitFields;
  readonly json: string;
}

export const serialized = (answer: CheckAnswer): SerializedAnswer => ({
  allowed: answer.allowed,
  headers: answer.headers,
  json: JSON.stringify(answer),
});

export const noStore = { "Cache-Control": "no-store" };

/** Shared by all answers: a Response copies its headers. */
const okay = { status: 200, headers: { "Content-Type": "application/json", ...noStore } };

/** 200 with the decision, whether allowed or denied. With `deny`, a denial has that status. */
export function respond({ deny }: DenyOption, answer: SerializedAnswer | Failure): Response {
  if (isFailure(answer)) return problemResponse(answer);
  const { allowed, headers, json } = answer;
  if (deny === undefined || allowed) return new Response(json, okay);
  return new Response(json, { status: deny, headers: { ...okay.headers, ...headers } });
}
