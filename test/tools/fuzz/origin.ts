/** An origin that answers as each request instructs it, and records the requests that reach it. */

import { secretTag } from "./people.ts";

/** Instructions for the origin in a request's `X-Ask` field. */
export interface OriginInstruction {
  /** The number of the request. */
  readonly id: number;
  /** The method that the client used. */
  readonly method: string;
  readonly status: number;
  /** Names and values of response fields. */
  readonly fields?: readonly (readonly [string, string])[];
  readonly delayMs?: number;
  /** The key of the slot that the request holds. */
  readonly slot?: string;
  /** Closes the connection without a response. */
  readonly fails?: boolean;
}

export const askField = (ask: OriginInstruction): string => encodeURIComponent(JSON.stringify(ask));

/** A field that only the origin's responses have. */
export const originField = "x-fuzz-origin";

/** The report that the origin returns at `/arrivals` on its own port. */
export interface OriginReport {
  /** The numbers of the received requests. A request that was received twice has two entries. */
  readonly ids: readonly number[];
  /** Requests that were received with another method, or without the secret that only Headgate knows. */
  readonly changed: readonly number[];
  /** The number of all requests received. */
  readonly count: number;
  /** For each slot key, the largest number of received requests that were unanswered at the same time. */
  readonly mostInFlight: Readonly<Record<string, number>>;
}

export const originSecret = `${secretTag}-of-the-origin`;

export const origin = `
const ids = [];
const changed = [];
let count = 0;
const inFlight = {};
const mostInFlight = {};

function enter(slot) {
  let isIn = slot !== undefined;
  if (isIn) {
    inFlight[slot] = (inFlight[slot] ?? 0) + 1;
    mostInFlight[slot] = Math.max(mostInFlight[slot] ?? 0, inFlight[slot]);
  }
  return () => {
    if (isIn) inFlight[slot] -= 1;
    isIn = false;
  };
}

export default {
  async fetch(request) {
    if (new URL(request.url).hostname === "127.0.0.1") {
      return Response.json({ ids, changed, count, mostInFlight });
    }
    count += 1;
    const instruction = request.headers.get("X-Ask");
    const { id, method, status, fields = [], delayMs = 0, slot, fails = false } =
      instruction === null ? { status: 200 } : JSON.parse(decodeURIComponent(instruction));
    if (id !== undefined) ids.push(id);
    const isChanged = request.method !== method || request.headers.get("X-Headgate-Secret") !== "${originSecret}";
    if (id !== undefined && isChanged) changed.push(id);
    if (fails) throw new Error("instructed to fail");
    const leave = enter(slot);
    // A request whose client has disconnected ends here.
    request.signal.addEventListener("abort", leave);
    if (delayMs > 0) await scheduler.wait(delayMs);
    leave();
    const headers = new Headers({ "${originField}": String(id ?? "none") });
    for (const [name, value] of fields) headers.append(name, value);
    if (status === 101) {
      const { 0: client, 1: server } = new WebSocketPair();
      server.accept();
      return new Response(null, { status, headers, webSocket: client });
    }
    const hasBody = ![204, 205, 304].includes(status);
    return new Response(hasBody ? "of the origin" : null, { status, headers, encodeBody: "manual" });
  },
};
`;
