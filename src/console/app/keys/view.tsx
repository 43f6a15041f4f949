/** The view "Keys": the keys that are denied or spend most, and what happens to one of them and why. */
import { useEffect } from "preact/hooks";
import type { Policy } from "../api/answers.ts";
import { useChanges } from "../api/changes.ts";
import { readPolicies } from "../api/policies.ts";
import { usePolled } from "../api/poll.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { PolicyChoice } from "../parts/policy-choice.tsx";
import { hrefOf, navigate, replaceQuery, route } from "../shell/route.ts";
import { readDenials } from "./denial-share.ts";
import { mostDenying } from "./denials.ts";
import { FindKey } from "./find-key.tsx";
import { KeyPage } from "./key-page.tsx";
import "./keys.css";
import { TopLists } from "./top-lists.tsx";

const pauseMs = 10_000;

export function KeysView() {
  const { value, problem, readAgain } = usePolled(readPolicies, pauseMs);
  useChanges(readAgain);
  const policies = value.value;
  return (
    <section class="keys">
      <h1>Keys</h1>
      {policies === null && problem.value === null && <Loading what="the policies" />}
      {policies === null && problem.value !== null && <Failure problem={problem.value} onRetry={readAgain} />}
      {policies?.length === 0 && <Empty>The configuration has no policies.</Empty>}
      {policies !== null && policies.length > 0 && <OfPolicies policies={policies} />}
    </section>
  );
}

function OfPolicies({ policies }: { readonly policies: readonly Policy[] }) {
  const { query } = route.value;
  const name = query.get("policy");
  const id = query.get("id");
  useEffect(() => {
    if (name === null) void chooseFirst(policies);
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- policies change at each read
  }, [name]);
  if (name === null) return <Loading what="the keys" />;
  const policy = policies.find((each) => each.name === name);
  return (
    <>
      <div class="row choice">
        <PolicyChoice policies={policies} chosen={policy} onChoose={(chosen) => navigate("keys", { policy: chosen })} />
        {policy !== undefined && id !== null && (
          <a href={hrefOf("keys", { policy: policy.name })}>All keys of {policy.name}</a>
        )}
      </div>
      {policy === undefined && <Empty>There is no policy with the name {name}.</Empty>}
      {policy !== undefined && id === null && (
        <>
          <FindKey key={policy.name} policy={policy} />
          <TopLists key={policy.name} policy={policy} />
        </>
      )}
      {policy !== undefined && id !== null && <KeyPage key={`${policy.name} ${id}`} policy={policy} id={id} />}
    </>
  );
}

/** Shows the policy with the most denials of the last day. */
async function chooseFirst(policies: readonly Policy[]): Promise<void> {
  const points = await readDenials().catch(() => []);
  const first = mostDenying(points, policies) ?? policies[0]?.name;
  if (first !== undefined && !route.value.query.has("policy")) replaceQuery({ policy: first });
}
