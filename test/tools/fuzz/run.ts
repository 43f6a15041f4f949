/** Sends requests of every kind concurrently and checks each response. */
import { responderOf, type Excuse, failureOf, jsonOf, invalidDecision } from "./answers.ts";
import { callOf, invalidCall, exclusiveKey, queryOf, sharedKey, tenants } from "./checks.ts";
import { abandon, type Answer, answersTo, Connection, type TargetAddress } from "./connection.ts";
import { Draw } from "./draw.ts";
import { type ExpectedCharge, SpendRecord } from "./ledger.ts";
import { ExclusiveKey, remainingByLimit } from "./own.ts";
import { TimedLimits } from "./passages.ts";
import { proxied } from "./proxied.ts";
import { rawOf } from "./raw.ts";
import { everything, requestOf } from "./requests.ts";

/** A fault, and the request that caused it. */
export interface Fault {
  readonly id: number;
  readonly what: string;
  readonly request: string;
}

/** The records and faults of a run. */
export class FuzzResult {
  readonly ledger = new SpendRecord();
  readonly passages = new TimedLimits();
  readonly faults: Fault[] = [];
  /** The number of requests sent by kind. */
  readonly kinds = new Map<string, number>();
  /** The number of responses by sender and status. */
  readonly answers = new Map<string, Map<number, number>>();
  /** The numbers of requests that the origin has answered. */
  readonly letIn: number[] = [];
  readonly denied: number[] = [];
  /** Requests that may or may not have reached the origin. */
  lost = 0;

  count(kind: string, answers: readonly Answer[]): void {
    this.kinds.set(kind, (this.kinds.get(kind) ?? 0) + 1);
    for (const answer of answers) {
      const author = responderOf(answer);
      const statuses = this.answers.get(author) ?? new Map<number, number>();
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      this.answers.set(author, statuses);
    }
  }

  fault(id: number, request: string, faults: readonly (string | null)[]): void {
    for (const what of faults) if (what !== null) this.faults.push({ id, what, request });
  }
}

const timeoutMs = 30_000;
/** How long to wait for more responses to raw bytes. Responses that arrive later are not read. */
const quietMs = 150;
/** A run stops after this many faults. */
const maxFaults = 10;

export interface FuzzOptions {
  readonly seed: number;
  readonly requests: number;
  readonly connections: number;
}

/** Sends all requests. Each connection sends one request at a time. */
export async function run(place: TargetAddress, { seed, requests, connections }: FuzzOptions): Promise<FuzzResult> {
  const course = new FuzzResult();
  const clients = Array.from({ length: connections }, async (_, number) => {
    const caller = new FuzzClient(place, number, course);
    for (let id = number; id < requests; id += connections) {
      if (course.faults.length >= maxFaults) break;
      // A connection carries one request at a time.
      // oxlint-disable-next-line no-await-in-loop
      await caller.next(new Draw(seed, id));
    }
    caller.close();
  });
  await Promise.all(clients);
  return course;
}

const callsOfKey = 100;
/** An upper bound on the charge for malformed bytes, which may contain several requests. */
const malformedCharge: ExpectedCharge = { ...everything, cost: 10, finalCost: 10 };

class FuzzClient {
  readonly #place: TargetAddress;
  readonly #number: number;
  readonly #course: FuzzResult;
  readonly #connection: Connection;
  #own: ExclusiveKey[] = [];
  #calls = 0;

  constructor(place: TargetAddress, number: number, course: FuzzResult) {
    this.#place = place;
    this.#number = number;
    this.#course = course;
    this.#connection = new Connection(place);
  }

  close(): void {
    this.#connection.close();
  }

  next(draw: Draw): Promise<void> {
    const kind = draw.below(100);
    if (kind < 62) return this.#proxied(draw);
    if (kind < 68) return this.#abandoned(draw);
    if (kind < 75) return this.#shared(draw);
    if (kind < 84) return this.#exact(draw);
    if (kind < 93) return this.#nonsense(draw);
    return this.#raw(draw);
  }

  async #proxied(draw: Draw): Promise<void> {
    const request = await requestOf(draw);
    const { fault } = proxied(request, this.#course);
    const answer = await this.#exchange("proxied", draw, request.bytes, request.method, {
      isUnreachable: request.ask.fails === true,
    });
    // Closes the connection, because the server would read the bytes after a denied upgrade as the next request.
    if (request.drawn.after !== undefined) this.#connection.close();
    if (answer !== null) this.#course.fault(draw.id, request.bytes, fault(answer));
  }

  /** Sends a request and disconnects without waiting for the response. */
  async #abandoned(draw: Draw): Promise<void> {
    const { charges, bytes, drawn } = await requestOf(draw);
    const { ledger, passages } = this.#course;
    const cut = draw.chance(0.2) ? bytes.slice(0, draw.below(bytes.length)) : bytes;
    ledger.lose(ledger.send(charges));
    if (drawn.bannable !== undefined) passages.recordUnknown(drawn.bannable);
    this.#course.lost++;
    await abandon(this.#place, cut, draw.one([0, 0, 1, 5, 20]), draw.chance(0.6));
    this.#course.count("abandoned", []);
  }

  /** Charges a key that the proxy also charges, or looks at it. */
  async #shared(draw: Draw): Promise<void> {
    const charge = await sharedKey(draw);
    if (charge === null) return this.#exact(draw);
    const { ledger } = this.#course;
    if (draw.chance(0.4)) {
      const leastBefore = ledger.leastOf(charge);
      const call = callOf(draw, "GET", `/check${queryOf(charge)}`);
      const answer = await this.#exchange("look", draw, call.bytes, call.method);
      if (answer === null) return;
      const found = remainingByLimit(jsonOf(answer));
      this.#course.fault(draw.id, call.bytes, ledger.looked(charge, leastBefore, found));
      return;
    }
    const { policy, named, cost } = charge;
    const key = named?.length === 1 ? named[0] : named;
    const call = callOf(draw, "POST", "/check", { policy, key, cost });
    const sent = ledger.send([charge]);
    const answer = await this.#exchange("check", draw, call.bytes, call.method);
    if (answer === null) return;
    const json = Object(jsonOf(answer)) as { allowed?: boolean; violated?: string[] };
    const faults =
      json.allowed === true
        ? ledger.allow(sent, remainingByLimit(json))
        : ledger.deny(sent, json.violated ?? ["nothing"]);
    this.#course.fault(draw.id, call.bytes, faults);
  }

  /** Calls `/check` for a key that only this client uses. */
  async #exact(draw: Draw): Promise<void> {
    // Each tenant uses a key for several calls before the next key.
    const round = Math.floor(this.#calls++ / callsOfKey);
    const key = exclusiveKey(draw, this.#number, round);
    if (this.#calls % callsOfKey === 1) {
      this.#own = tenants.map((tenant) => new ExclusiveKey(key, tenant));
    }
    const { call, faultOf } = draw.one(this.#own).next(draw);
    const answer = await this.#exchange("exact", draw, call.bytes, call.method);
    if (answer === null) return;
    const what = faultOf(answer.status, jsonOf(answer));
    const found = `${answer.status} ${answer.body}`;
    this.#course.fault(draw.id, call.bytes, [what === null ? null : `${what}, got ${found}`]);
  }

  async #nonsense(draw: Draw): Promise<void> {
    const { bytes, method, isAuthorized, status } = await invalidCall(draw);
    const answer = await this.#exchange("nonsense", draw, bytes, method);
    if (answer === null) return;
    const isLetIn = answer.status < 300 && !/^\S+ \/check\/(?:health|openapi\.json)/.test(bytes);
    this.#course.fault(draw.id, bytes, [
      isLetIn && !isAuthorized ? `status ${answer.status} without a token` : null,
      status === undefined || status === answer.status ? null : `expected status ${status}, got ${answer.status}`,
      invalidDecision(jsonOf(answer)),
      responderOf(answer) === "the origin" ? "a call of Headgate's own path reached the origin" : null,
    ]);
  }

  async #raw(draw: Draw): Promise<void> {
    const { bytes, isConnect } = await rawOf(draw);
    const { ledger } = this.#course;
    ledger.lose(ledger.send([malformedCharge]));
    this.#course.lost++;
    const answers = await answersTo(this.#place, bytes, quietMs);
    this.#course.count("malformed", answers);
    const isUnreachable = /content-length|transfer-encoding/i.test(bytes);
    const faults = answers.map((answer) => failureOf(answer, { isConnect, isUnreachable }));
    this.#course.fault(draw.id, bytes, faults);
  }

  async #exchange(
    kind: string,
    draw: Draw,
    bytes: string,
    method: string,
    excuse: Excuse = {},
  ): Promise<Answer | null> {
    try {
      const answer = await this.#connection.exchange(bytes, method === "HEAD", timeoutMs);
      this.#course.count(kind, [answer]);
      this.#course.fault(draw.id, bytes, [failureOf(answer, excuse)]);
      return answer;
    } catch (error) {
      this.#course.fault(draw.id, bytes, [`no answer: ${String(error)}`]);
      return null;
    }
  }
}
