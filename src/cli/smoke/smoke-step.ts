/** The steps of the smoke test: how they run, and how each one ends. */
import { isRecord, joinPath } from "../../validation/problems.ts";
import { type ReceivedAnswer, NoAnswer, type Send } from "./bounded-request.ts";

export interface SmokeTarget {
  /** The origin of the deployment. */
  readonly url: URL;
  /** The origin of the console; null if unknown. */
  readonly adminUrl: URL | null;
  readonly checkPath: string;
  readonly adminPath: string;
  /** The path of a request to the proxy; null for "/", to which no policy need apply. */
  readonly path: string | null;
  /** A token of `/check`; null if unknown. */
  readonly token: string | null;
  /** Null for the only policy. */
  readonly policy: string | null;
  /** Empty for a random key. */
  readonly key: readonly string[];
  /** The most requests to the proxy until one is denied; 0 to send none. */
  readonly mostRequests: number;
  readonly expectedVersion: string;
}

export interface SmokeStep {
  readonly name: string;
  readonly run: (target: SmokeTarget, send: Send) => Promise<StepOutcome>;
}

export interface StepOutcome {
  readonly outcome: "pass" | "skipped" | "fail";
  /** The observation, or the reason. */
  readonly detail: string;
}

/** Ends a step as failed. */
export class StepFailure extends Error {}

export const passed = (detail: string): StepOutcome => ({ outcome: "pass", detail });
export const skipped = (detail: string): StepOutcome => ({ outcome: "skipped", detail });

/** Runs one step. A missing answer is a failure. */
export async function runStep({ run }: SmokeStep, target: SmokeTarget, send: Send): Promise<StepOutcome> {
  try {
    return await run(target, send);
  } catch (error) {
    if (error instanceof StepFailure) return { outcome: "fail", detail: error.message };
    if (!(error instanceof NoAnswer)) throw error;
    return { outcome: "fail", detail: `no answer: ${error.message}` };
  }
}

/** @throws StepFailure unless the condition holds */
export function require(isMet: boolean, message: string): asserts isMet {
  if (!isMet) throw new StepFailure(message);
}

export const requireStatus = (answer: ReceivedAnswer, status: number): void =>
  require(answer.status === status, `expected the status ${status}, got ${shownAnswer(answer)}`);

/** @throws StepFailure unless the answer is a problem document with this status */
export function requireProblem(answer: ReceivedAnswer, status: number): void {
  requireStatus(answer, status);
  const stated = isRecord(answer.json) ? answer.json["status"] : undefined;
  require(answer.isProblem &&
    stated === status, `expected problem details with the status ${status}, got ${shownAnswer(answer)}`);
}

/** The status, the type of the content, and the detail of a problem. */
export function shownAnswer({ status, headers, json, isProblem }: ReceivedAnswer): string {
  const location = headers.get("Location");
  if (location !== null) return `${status} with a redirect to ${printable(location)}`;
  if (isProblem && isRecord(json)) return `${status} (${printable(String(json["detail"]))})`;
  return `${status} with ${printable(headers.get("Content-Type") ?? "no content type")}`;
}

/** The problems of a configuration, or of a request, in problem details. */
export function shownErrors({ json }: ReceivedAnswer): string {
  const errors: unknown = isRecord(json) ? json["errors"] : [];
  return (Array.isArray(errors) ? errors.filter(isRecord) : [])
    .map(({ variable = "", field = "", accepted }) =>
      printable(`${joinPath(String(variable), String(field))}: expected ${String(accepted)}`),
    )
    .join("; ");
}

const mostPrinted = 300;

/** A server may send control characters, which a terminal would obey. */
export function printable(text: string): string {
  const visible = text.replace(/[^\x20-\x7e\u{a1}-\u{ffff}]/gu, "?");
  return visible.length > mostPrinted ? `${visible.slice(0, mostPrinted)}…` : visible;
}

/** The URL of a path of the target, which may have a query. */
export const urlAt = (base: URL, path: string): URL => new URL(path, base);
