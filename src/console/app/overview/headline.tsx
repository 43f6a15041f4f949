/** The first sentences of the overview, which answer how much is denied, by which policy, and to whom. */
import type { ComponentChildren } from "preact";
import type { PolicyView, TopKeyList } from "../../../admin/wire.ts";
import { now } from "../clock.ts";
import { keyName } from "../keys/known-keys.ts";
import { countOf, numberText, percentText, shortInstantText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import {
  countedPeriod,
  type DenyingTime,
  denyingTimeOf,
  type HeadlineFacts,
  mostDeniedKey,
  shownKey,
} from "./headline-facts.ts";
import type { SpanTraffic } from "./spans.ts";

interface HeadlineProps {
  /** Null before the first answer. */
  readonly spanTraffic: SpanTraffic | null;
  readonly facts: HeadlineFacts | null;
  readonly policy: string | null;
  readonly policies: readonly PolicyView[];
  /** The address of the denials of the span. */
  readonly denialsHref: string;
}

export function Headline({ spanTraffic, facts, policy, policies, denialsHref }: HeadlineProps) {
  if (spanTraffic === null || facts === null) return <Frame>Loading.</Frame>;
  const { traffic, span, endMs, top } = spanTraffic;
  const { denying, dryRun } = facts;
  const words = countedPeriod(spanTraffic, policy, now());
  const time = denying && denyingTimeOf(traffic, denying.policy, endMs, now());
  const verb = time === null || isOver(time) || span.range !== null ? "denied" : "denies";
  return (
    <Frame dryRun={dryRun}>
      <Requests facts={facts} words={words} policy={policy} href={denialsHref} />
      {denying !== null && policy === null && (
        <>
          {" "}
          <PolicyName name={denying.policy} /> {verb} most: {numberText(denying.count)} (
          <b>{percentText(denying.count, denying.decisions)}</b> of its requests)
          {time !== null && `, ${timeWords(time)}`}.
        </>
      )}
      {policy !== null && time !== null && ` It ${verb} requests ${timeWords(time)}.`}
      {denying !== null && <MostDenied denying={denying} policies={policies} top={top} />}
    </Frame>
  );
}

const isOver = (time: DenyingTime): boolean => typeof time === "object" && "lastMs" in time;

/** "since 17:42" names the first denial, which may be before the period of the numbers. */
function timeWords(time: DenyingTime): string {
  if (time === "longer than shown") return "for longer than shown";
  if ("sinceMs" in time) return `since ${shortInstantText(time.sinceMs, now())}`;
  return `until ${shortInstantText(time.lastMs, now())}`;
}

interface FrameProps {
  readonly dryRun?: HeadlineFacts["dryRun"];
  readonly children: ComponentChildren;
}

const Frame = ({ dryRun = null, children }: FrameProps) => (
  <div class="headline">
    <p>{children}</p>
    {dryRun !== null && (
      <p class="dim">
        <PolicyName name={dryRun.policy} /> would deny {percentText(dryRun.count, dryRun.decisions)} of its requests
        (dry run).
      </p>
    )}
  </div>
);

const PolicyName = ({ name }: { readonly name: string }) => (
  <a href={hrefOf("policies", { name })}>
    <code>{name}</code>
  </a>
);

interface RequestsProps {
  readonly facts: HeadlineFacts;
  readonly words: string;
  readonly policy: string | null;
  readonly href: string;
}

function Requests({ facts: { requests }, words, policy, href }: RequestsProps) {
  const by = policy === null ? "" : ` by ${policy}`;
  if (requests === null) {
    return <>The number of requests {words} is unknown, because an earlier version did not count them.</>;
  }
  const { denied, decisions } = requests;
  if (decisions === 0) return <>{`No request was decided${by} ${words}.`}</>;
  if (denied === 0) return <>{`No request was denied${by} ${words}, of ${countOf(decisions, "request")}.`}</>;
  return (
    <>
      <a href={href}>
        <b class="denied">{percentText(denied, decisions)}</b> of {countOf(decisions, "request")} denied
      </a>
      {`${by} ${words}.`}
    </>
  );
}

interface MostDeniedProps {
  readonly denying: NonNullable<HeadlineFacts["denying"]>;
  readonly policies: readonly PolicyView[];
  readonly top: TopKeyList | null;
}

/** The list may belong to another policy while that of this one is read. */
function MostDenied({ denying, policies, top }: MostDeniedProps) {
  const { policy } = denying;
  const own = policies.find(({ name }) => name === policy);
  const most = mostDeniedKey(top, denying);
  if (most === null || own === undefined) return null;
  return (
    <>
      {` ${most.share} of these denials have the key `}
      <a href={hrefOf("keys", { policy, id: most.id })}>{shownKey(keyName(policy, most.id), own)}</a>.
    </>
  );
}
