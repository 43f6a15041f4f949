/**
 * Headgate's proxy with several limiter clients. The header `X-Calls` of a request selects one of them: with joined
 * calls, with separate calls, or with distant objects. The Worker counts calls and decisions. In workerd, the objects
 * run in the Worker's isolate.
 */
import { parseConfig } from "../../../src/policy/vars/config.ts";
import { createProxy, type Proxy as ProxyRequest } from "../../../src/http/proxy/proxy.ts";
import { createRuntime } from "../../../src/http/runtime.ts";
import headgate, { RateLimiter as Own } from "../../../src/index.ts";
import { LimiterClient } from "../../../src/limiter/isolate/client.ts";
import type { FlatList } from "../../../src/limiter/flat-calls.ts";
import type { RefundCall } from "../../../src/limiter/protocol.ts";
import { nestedCalls } from "../../fakes/flat-calls.ts";
import { decodedReplies } from "../../fakes/key-checks.ts";
import type { Counts } from "./counts.ts";

export { ControlPlane, Headgate } from "../../../src/index.ts";

const newCounts = (): Omit<Counts, "callsUnderWay"> => ({
  allowed: {},
  denied: {},
  refunded: {},
  undecided: 0,
  requests: [],
  calls: [],
});

let counts = newCounts();

function count(counted: Record<string, number>, policy: string): void {
  counted[policy] = (counted[policy] ?? 0) + 1;
}

export class RateLimiter extends Own {
  override decide(texts: readonly string[], values: FlatList): FlatList {
    const replies = super.decide(texts, values);
    const call = { texts, checks: values };
    const checks = nestedCalls(call);
    for (const [index, reply] of decodedReplies(call, replies).entries()) {
      const { policy = "" } = checks[index]?.charges[0] ?? {};
      if (reply instanceof Error || reply.decisions.length !== 1) counts.undecided++;
      else count(reply.decisions[0]?.allowed === true ? counts.allowed : counts.denied, policy);
    }
    return replies;
  }

  override refund(call: RefundCall): void {
    for (const { policy } of call.charges) count(counts.refunded, policy);
    super.refund(call);
  }
}

/** The number of values of a check with one charge. */
const valuesOfCheck = 6;

let callsUnderWay = 0;

type Objects = Env["RATE_LIMITER"];

/** Objects that count their calls with checks, and delay each by a round trip of `travelMs`. */
function distantObjects(objects: Objects, travelMs: number): Objects {
  const getByName: Objects["getByName"] = (name, options) => {
    const stub = objects.getByName(name, options);
    const decide = async (texts: readonly string[], checks: FlatList): Promise<FlatList> => {
      callsUnderWay++;
      counts.calls.push({ checks: checks.length / valuesOfCheck, underWay: callsUnderWay });
      await scheduler.wait(travelMs / 2);
      try {
        return await stub.decide(texts, checks);
      } finally {
        await scheduler.wait(travelMs / 2);
        callsUnderWay--;
      }
    };
    return new Proxy(stub, {
      get: (_, method) => {
        if (method === "decide") return decide;
        return (...values: unknown[]) => Reflect.apply(Reflect.get(stub, method), stub, values);
      },
    });
  };
  return { getByName } as Objects;
}

const callsOf: Readonly<Record<string, { travelMs: number; joinsChecks: boolean }>> = {
  joined: { travelMs: 4, joinsChecks: true },
  separate: { travelMs: 4, joinsChecks: false },
  distant: { travelMs: 150, joinsChecks: true },
};

const proxies = new Map<string, ProxyRequest>();

function proxyWith(calls: string, env: Env): ProxyRequest {
  const known = proxies.get(calls);
  if (known !== undefined) return known;
  const { travelMs, joinsChecks } = callsOf[calls] ?? { travelMs: 0, joinsChecks: true };
  const config = parseConfig({ ...env });
  const objects = distantObjects(env.RATE_LIMITER, travelMs);
  const limiter = new LimiterClient(objects, undefined, null, { joinsChecks });
  const proxy = createProxy(config, { ...createRuntime(config, env), limiter });
  proxies.set(calls, proxy);
  return proxy;
}

export default {
  fetch(request, env, ctx) {
    const { pathname } = new URL(request.url);
    if (pathname === "/counts") {
      if (request.method === "DELETE") counts = newCounts();
      return Response.json({ ...counts, callsUnderWay } satisfies Counts);
    }
    const calls = request.headers.get("X-Calls");
    if (calls === null) return headgate.fetch(request, env, ctx);
    counts.requests.push({ callsBefore: counts.calls.length });
    return proxyWith(calls, env)(request, (work) => ctx.waitUntil(work));
  },
} satisfies ExportedHandler<Env>;
