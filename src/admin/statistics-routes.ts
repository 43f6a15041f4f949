/** `/api/stats`, `/api/metrics` and `/api/tail`. */
import * as v from "valibot";
import { modeOf } from "../policy/runtime-rules.ts";
import { policyWithRules } from "../policy/read-runtime-rules.ts";
import { limitInfos } from "../control/isolate/control-client.ts";
import { latencyBoundsMs, type LimitsInEffect } from "../control/protocol.ts";
import type { RequestsPoint, Statistics } from "../control/statistics-calls.ts";
import type { StaleRules } from "../limiter/protocol.ts";
import { parseDuration } from "../strategies/index.ts";
import {
  type AdminContext,
  type AuthorizedCall,
  CallRefused,
  whenRefused,
  answer,
  fieldsRefused,
  instant,
  instantText,
  integerText,
  policyNameText,
  policyOf,
  queryIn,
} from "./context.ts";
import { loggedKeysView, periodSteps } from "./key-routes.ts";
import { type FailedAttempts, refuseCrossSite } from "./authenticate.ts";
import type { StatisticsView, TailTicket } from "./wire.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const longestSpanMs = 90 * 24 * hourMs;
const mostSteps = 2_160;

const acceptedStep = 'a duration of whole minutes such as "1m" or "1h"';
export const stepText = v.pipe(
  v.string(acceptedStep),
  v.transform((written) => parseDuration(written) ?? 0),
  v.check((stepMs) => stepMs >= minuteMs && stepMs % minuteMs === 0, acceptedStep),
);

const statisticsQuery = {
  from: v.optional(instant),
  to: v.optional(instant),
  step: v.optional(stepText),
  policy: v.exactOptional(policyNameText),
  top: v.exactOptional(integerText(1, 200)),
  topPolicy: v.exactOptional(policyNameText),
};

/** The default span is the last hour. The default step is a minute, or an hour for more than a day. */
export async function readStatistics(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { from, to, step: written, top: limit, topPolicy, ...query } = queryIn(c, statisticsQuery);
  const toMs = to ?? context.clock.now();
  const fromMs = from ?? toMs - hourMs;
  const stepMs = written ?? (toMs - fromMs > 24 * hourMs ? hourMs : minuteMs);
  if (fromMs >= toMs || toMs - fromMs > longestSpanMs) {
    throw fieldsRefused([{ field: "from", accepted: "an instant before to, by at most 90 days" }]);
  }
  if ((toMs - fromMs) / stepMs > mostSteps) {
    const accepted = `a step of which the span has at most ${mostSteps}`;
    throw fieldsRefused([{ field: "step", accepted }]);
  }
  if (query.policy !== undefined) policyOf(context, query.policy);
  const ofPolicy = topPolicy === undefined ? {} : { policy: topPolicy };
  const top = limit === undefined ? {} : { top: { limit, steps: periodSteps, ...ofPolicy } };
  const statistics = await context.controlPlane.call((stub) =>
    stub.statistics({ fromMs, toMs, stepMs, ...query, ...top }),
  );
  context.control.watch();
  return answer<StatisticsView>({
    from: instantText(statistics.fromMs),
    to: instantText(statistics.toMs),
    stepMs: statistics.stepMs,
    latencyBoundsMs,
    points: statistics.points.map(({ atMs, ...counts }) => ({ at: instantText(atMs), ...counts })),
    originFailures: statistics.originFailures.map(({ atMs, count }) => ({ at: instantText(atMs), count })),
    requests: requestsIn(statistics).map(({ atMs, ...counts }) => ({ at: instantText(atMs), ...counts })),
    denialRuns: (statistics.denialRuns ?? []).map(({ policy, sinceMs, lastMs }) => ({
      policy,
      since: instantText(sinceMs),
      last: instantText(lastMs),
    })),
    ...firstCountsIn(statistics),
    ...topIn(statistics),
  });
}

/** An object of an earlier version does not return them. */
const firstCountsIn = ({ firstCounts }: Statistics): Pick<StatisticsView, "firstCounts"> =>
  firstCounts === undefined
    ? {}
    : {
        firstCounts: firstCounts.map(({ policy, atMs, deniedAtMs }) => ({
          policy,
          at: instantText(atMs),
          deniedAt: deniedAtMs === null ? null : instantText(deniedAtMs),
        })),
      };

function topIn({ top, ...span }: Statistics): Pick<StatisticsView, "top"> {
  if (top === undefined) return {};
  if (top === null) return { top };
  const keys = top.keys.map(({ key: id, count, error }) => ({ id, count, error }));
  const period = loggedKeysView(top.period, span);
  return { top: { policy: top.policy, by: "denied", from: instantText(top.fromMs), keys, period } };
}

/** An object of an earlier version counts no requests: they are unknown in every step that has decisions. */
const requestsIn = ({ requests, points }: Statistics): readonly RequestsPoint[] =>
  requests ?? [...new Set(points.map(({ atMs }) => atMs))].map((atMs) => ({ atMs, decided: null, denied: null }));

export async function readMetrics(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  queryIn(c, {});
  const limits = await limitsInEffect(context);
  const exposition = await context.controlPlane.call((stub) => stub.metrics(limits));
  return new Response(exposition, {
    headers: {
      "Content-Type": "text/plain; version=0.0.4; charset=utf-8",
      "Cache-Control": "no-store",
    },
  });
}

/**
 * Computed here because the control plane knows only the rules, and isolates know the configuration that they modify.
 */
async function limitsInEffect({ policies, controlPlane, clock }: AdminContext): Promise<LimitsInEffect> {
  const all = await controlPlane.call((stub) => stub.rulesOfPolicies()).catch(whenRefused(noRules));
  const rulesOf = new Map(all.map((rules) => [rules.policy, rules]));
  const limits = policies.map((base) => {
    const rules = rulesOf.get(base.name);
    const policy = rules === undefined ? base : policyWithRules(base, rules, clock.now()).policy;
    return [base.name, modeOf(policy) === "off" ? [] : limitInfos(policy)] as const;
  });
  return Object.fromEntries(limits);
}

/** An object of the previous version cannot return rules. */
const noRules: readonly StaleRules[] = [];

export async function createTicket(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { actor } = c.var.operator;
  const { ticket, expiresAtMs } = await context.controlPlane.call((stub) => stub.ticket(actor));
  return answer<TailTicket>({ ticket, expiresAt: instantText(expiresAtMs) }, 201);
}

const ticketQuery = {
  ticket: v.pipe(v.string("a ticket"), v.regex(/^[\w-]{1,128}$/, "a ticket")),
};

/** The ticket replaces credentials: browsers cannot set header fields on WebSockets. */
export async function openTail(context: AdminContext, c: AuthorizedCall, attempts: FailedAttempts): Promise<Response> {
  const { raw } = c.req;
  attempts.refuseIfLimited(raw);
  if (raw.headers.has("Sec-Fetch-Site")) refuseCrossSite(raw);
  if (raw.headers.get("Upgrade")?.toLowerCase() !== "websocket") {
    throw new CallRefused({ kind: "upgrade-required" });
  }
  const { ticket } = queryIn(c, ticketQuery);
  const request = new Request(`https://control-plane/tail?ticket=${ticket}`, {
    headers: { Upgrade: "websocket" },
  });
  const response = await context.controlPlane.call((stub) => stub.fetch(request));
  if (response.webSocket !== null) {
    context.control.watch();
    return response;
  }
  await response.body?.cancel();
  if (response.status === 503) throw new CallRefused({ kind: "tails-full" });
  attempts.note(raw);
  throw new CallRefused({ kind: "ticket-invalid" });
}
