/** The view "Keys": the keys that are denied or spend most, and what happens to one of them and why. */
import { useEffect, useId, useState } from "preact/hooks";
import type { PolicyView, TopKeyList } from "../../../admin/wire.ts";
import { AnyPolicies, PolicyChoice } from "../parts/policies.tsx";
import { type Polling, usePolled } from "../api/poll.ts";
import { useAction } from "../parts/action.ts";
import { Input } from "../parts/fields.tsx";
import { Empty, Loading } from "../parts/notice.tsx";
import { hrefOf, navigate, replaceQuery, route } from "../shell/route.ts";
import { denialKind, denialTexts, mostDenying, readDenials } from "./denials.ts";
import { KeyPage } from "./key-page.tsx";
import { TopList } from "./levels.tsx";
import "./keys.css";
import { findKey, isUnrecorded, showsPlainKeys, soughtKey, type TypedKey, unrecordedReason } from "./known-keys.ts";
import { queryText, read } from "../api/client.ts";

export const KeysView = () => (
  <section class="keys">
    <h1>Keys</h1>
    <AnyPolicies>{(policies) => <OfPolicies policies={policies} />}</AnyPolicies>
  </section>
);

function OfPolicies({ policies }: { readonly policies: readonly PolicyView[] }) {
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
      {policy !== undefined && id !== null && (
        <KeyPage
          key={`${policy.name} ${id}`}
          policy={policy}
          id={id}
          inside={policies.filter(({ within }) => within === policy.name)}
        />
      )}
    </>
  );
}

/** Shows the policy with the most denials of the last day. */
async function chooseFirst(policies: readonly PolicyView[]): Promise<void> {
  const points = await readDenials().catch(() => []);
  const first = mostDenying(points, policies) ?? policies[0]?.name;
  if (first !== undefined && !route.value.query.has("policy")) replaceQuery({ policy: first });
}

function FindKey({ policy: { name, key: parts } }: { readonly policy: PolicyView }) {
  const [typed, setTyped] = useState<TypedKey>({ key: parts.map(() => ""), id: "", tenant: "", attributes: "" });
  const problemId = useId();
  const { run, isRunning, problem } = useAction(async () => {
    const sought = soughtKey(typed, parts);
    const id = "id" in sought ? sought.id : await findKey(name, parts, sought);
    navigate("keys", { policy: name, id });
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    void run();
  };
  const field = (label: string, value = "", change: (text: string) => Partial<TypedKey>) => (
    <Input
      key={label}
      {...{ label, value }}
      autocomplete="off"
      spellcheck={false}
      onInput={(text) => setTyped({ ...typed, ...change(text) })}
    />
  );
  return (
    <section class="card" aria-labelledby="find-title">
      <h2 id="find-title">Find a key</h2>
      <form class="find" onSubmit={submit} aria-describedby={problemId}>
        {parts.map((part, index) =>
          part === "global" ? null : field(part, typed.key[index], (text) => ({ key: typed.key.with(index, text) })),
        )}
        {field("or the id of the key", typed.id, (id) => ({ id }))}
        <button type="submit" class="primary" disabled={isRunning}>
          Explain
        </button>
        <details>
          <summary>Tenant and attributes</summary>
          {field("Tenant of the /check token", typed.tenant, (tenant) => ({ tenant }))}
          <div class="field">
            <label for="attributes">Attributes</label>
            <textarea
              id="attributes"
              rows={2}
              placeholder="country=DE"
              aria-describedby="attributes-help"
              value={typed.attributes}
              onInput={({ currentTarget }) => setTyped({ ...typed, attributes: currentTarget.value })}
            />
            <p id="attributes-help" class="hint">
              One per line. Entries of lists and overrides are compared with them.
            </p>
          </div>
        </details>
      </form>
      <p id={problemId} class="problem" role="alert">
        {problem?.message}
      </p>
    </section>
  );
}

const topPauseMs = 2_500;
const listed = 10;
const kindPauseMs = 10_000;

const useTop = (policy: string, by: TopKeyList["by"]): Polling<TopKeyList> =>
  usePolled((abort) => read<TopKeyList>(`top${queryText({ policy, by, limit: listed })}`, abort), topPauseMs);

function TopLists({ policy }: { readonly policy: PolicyView }) {
  const denied = useTop(policy.name, "denied");
  const spent = useTop(policy.name, "cost");
  const { value: points } = usePolled((abort) => readDenials(abort, policy.name), kindPauseMs);
  const kind = denialKind(points.value ?? [], policy);
  const listedKeys = [denied, spent].flatMap(({ value }) => value.value?.keys ?? []);
  const hasUnrecorded = showsPlainKeys.value && listedKeys.some(({ id }) => isUnrecorded(policy.name, id));
  return (
    <>
      <p class="hint">
        The lists cover the current hour and the 23 hours before it. A range means that the exact count is somewhere in
        it.
      </p>
      {hasUnrecorded && <p class="hint">Some keys are shown by their ids. {unrecordedReason}</p>}
      <div class="grid top-lists">
        <TopList
          title={`Most ${kind}`}
          unit={denialTexts[kind].column}
          policy={policy.name}
          list={denied}
          empty="No key yet."
        />
        <TopList title="Most spent" unit="Spent units" policy={policy.name} list={spent} empty="No key yet." />
      </div>
    </>
  );
}
