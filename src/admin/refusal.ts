/** Handlers of the admin API refuse a request by throwing a problem. */
import { type Failure, isFailure, problemResponse } from "../http/wire/problems.ts";
import { answerInternalError } from "../http/runtime.ts";
import type { FieldError } from "../http/wire/problems.ts";

export class CallRefused extends Error {
  override readonly name = "CallRefused";
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.kind);
    this.failure = failure;
  }
}

export const fieldsRefused = (errors: readonly FieldError[]): CallRefused =>
  new CallRefused({ kind: "fields-invalid", errors });

/** @throws CallRefused when the value is a failure */
export function accepted<Value extends object>(value: Value | Failure): Value {
  if (isFailure<Failure>(value)) throw new CallRefused(value);
  return value;
}

export const answerRefusal = (error: unknown): Response =>
  error instanceof CallRefused ? problemResponse(error.failure) : answerInternalError(error);
