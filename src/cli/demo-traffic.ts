/**
 * `npm start -- --demo-traffic`: visitors of the local Worker, so that the console has something to show. They send requests to
 * this machine only, and only while the demo origin is behind the Worker.
 */
import { Agent, type ClientRequest, request } from "node:http";
import { setTimeout } from "node:timers/promises";
import type { Config } from "../policy/vars/config.ts";
import type { Policy } from "../policy/policy.ts";
import { type ExampleClient, examplePolicy, type ExampleRequest, exampleRequest } from "./example-request.ts";
import type { LocalSetup } from "./local-setup.ts";

export interface DemoVisitor {
  /** A documentation address (RFC 5737, RFC 3849), which no real client has. */
  readonly address: string;
  /** The request at a tick; null for none. */
  readonly requestAt: (tick: number) => ExampleRequest | null;
}

const ticksPerSecond = 10;
const mostInFlight = 50;
const longestWaitMs = 5_000;

const ordinaryVisitors = 8;
const ordinaryPeriodTicks = 25;
const greedyAddress = "198.51.100.23";
const greedyPeriodTicks = 2;
const attackerAddress = "2001:db8:bad::1";
const attackPeriodTicks = 100;
const attackTicks = 20;

/**
 * Ordinary visitors, who send 4 requests in 10 seconds; a greedy one, who sends 50; and an attacker, who sends bursts of 20 to a
 * login. None of them obeys `Retry-After`.
 */
export function demoVisitors(config: Config): DemoVisitor[] {
  const { policies, selfPolicies } = config;
  const ofOrigin = policies.filter((policy) => !selfPolicies.includes(policy));
  const ordinary = Array.from({ length: ordinaryVisitors }, (_, index) => {
    const number = index + 1;
    const address = number % 2 === 0 ? `2001:db8:${number}::1` : `203.0.113.${number}`;
    const requests = ofOrigin.map((policy) => exampleRequest(policy, { address, value: `visitor-${number}` }));
    const requestAt = (tick: number): ExampleRequest | null => {
      const turn = (tick + index * 3) / ordinaryPeriodTicks;
      return Number.isInteger(turn) ? (requests[(turn + index) % requests.length] ?? null) : null;
    };
    return { address, requestAt };
  });
  const busiest = examplePolicy(config);
  if (busiest === undefined) return [];
  const greedy = exampleRequest(busiest, { address: greedyAddress, value: "greedy" });
  const attack = attackOf(ofOrigin, { address: attackerAddress, value: "attacker" });
  return [
    ...ordinary,
    {
      address: greedyAddress,
      requestAt: (tick) => (tick % greedyPeriodTicks === 0 ? greedy : null),
    },
    {
      address: attackerAddress,
      requestAt: (tick) => (tick % attackPeriodTicks < attackTicks ? attack : null),
    },
  ];
}

/** A request to the login that a policy limits, or to `/login`. */
function attackOf(policies: readonly Policy[], client: ExampleClient): ExampleRequest {
  const login = policies.find(({ match }) => /log-?in|auth|sign-?in|password|token/i.test(match.path?.pathname ?? ""));
  if (login !== undefined) return exampleRequest(login, client);
  const general = policies.find(({ match: { path } }) => path === null);
  const fields = general === undefined ? new Map<string, string>() : exampleRequest(general, client).fields;
  return { method: "POST", target: "/login", fields };
}

/** The reason why demo traffic must not be sent to the Worker of this setup; null without one. */
export function demoTrafficObstacle({ hasDemoOrigin, variables }: LocalSetup): string | null {
  if (!hasDemoOrigin) {
    return "ORIGIN is set, and demo traffic must not reach your origin. Remove ORIGIN to use the demo origin.";
  }
  return variables["ALERT_WEBHOOK"]
    ? "ALERT_WEBHOOK is set, and demo traffic must not cause alerts. Remove ALERT_WEBHOOK."
    : null;
}

export class DemoTraffic {
  readonly #port: number;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #inFlight = new Map<ClientRequest, Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  #tick = 0;

  constructor(port: number) {
    this.#port = port;
  }

  /** Returns a line about what is sent. */
  start(setup: LocalSetup): string {
    const obstacle = demoTrafficObstacle(setup);
    if (obstacle !== null) return `Demo traffic is paused: ${obstacle}`;
    if (setup.config === null) return "Demo traffic is paused until the configuration is valid.";
    const visitors = demoVisitors(setup.config);
    this.#timer = setInterval(() => this.#send(visitors), 1_000 / ticksPerSecond);
    return (
      `Demo traffic: about 10 requests per second to ${targetsOf(visitors).join(", ")}, ` +
      `from ${ordinaryVisitors} visitors, a greedy one (${greedyAddress}) and an attacker (${attackerAddress}).`
    );
  }

  /** Resolves when no request is under way, so that none can reach a Worker with another configuration. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.race([Promise.all(this.#inFlight.values()), setTimeout(longestWaitMs)]);
    for (const sent of this.#inFlight.keys()) sent.destroy();
  }

  #send(visitors: readonly DemoVisitor[]): void {
    this.#tick += 1;
    for (const { address, requestAt } of visitors) {
      const next = requestAt(this.#tick);
      if (next !== null && this.#inFlight.size < mostInFlight) this.#sendOne(next, address);
    }
  }

  #sendOne({ method, target, fields }: ExampleRequest, address: string): void {
    const headers = { "CF-Connecting-IP": address, ...Object.fromEntries(fields) };
    const { promise, resolve } = Promise.withResolvers<void>();
    const sent = request(
      {
        host: "localhost",
        port: this.#port,
        method,
        path: target,
        headers,
        agent: this.#agent,
      },
      (response) => response.resume(),
    );
    this.#inFlight.set(sent, promise);
    // A request fails while the Worker stops.
    sent.on("error", () => undefined);
    sent.on("close", () => {
      this.#inFlight.delete(sent);
      resolve();
    });
    sent.end();
  }
}

/** The first few methods and paths. */
function targetsOf(visitors: readonly DemoVisitor[]): string[] {
  const ticks = Array.from({ length: attackPeriodTicks }, (_, tick) => tick);
  const targets = visitors.flatMap(({ requestAt }) =>
    ticks.flatMap((tick) => {
      const sent = requestAt(tick);
      return sent === null ? [] : [`${sent.method} ${sent.target.split("?")[0]}`];
    }),
  );
  const distinct = [...new Set(targets)];
  return distinct.length > 5 ? [...distinct.slice(0, 5), "…"] : distinct;
}
