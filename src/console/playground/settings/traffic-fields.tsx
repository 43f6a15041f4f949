/** The fields of the traffic: when requests come, from whom, and what clients do after a denial. */
import { changeScenario, scenario } from "../page-state.ts";
import { scenarioFields } from "../model/scenario-fields.ts";
import type { Rate, Retries, RetryKind, Traffic } from "../model/scenario.ts";
import { Choice, Field } from "./field.tsx";
import { LogInput } from "./log-input.tsx";

type TrafficKind = Traffic["kind"];

const kinds: Readonly<Record<TrafficKind, string>> = {
  steady: "Steady",
  poisson: "Random (Poisson)",
  bursts: "Bursts",
  times: "Exact times",
  log: "Access log",
};

/** The traffic that choosing a kind starts with. */
const firstTraffic: Readonly<Record<TrafficKind, Traffic>> = {
  steady: { kind: "steady", rate: { count: 120, windowMs: 60_000 } },
  poisson: { kind: "poisson", rate: { count: 120, windowMs: 60_000 } },
  bursts: { kind: "bursts", size: 100, withinMs: 1_000, firstMs: 0, everyMs: 60_000 },
  times: { kind: "times", times: [{ atMs: 0, count: 10, cost: null }] },
  log: { kind: "log" },
};

const counts = [1, 2, 5, 10, 20, 30, 40, 50, 60, 80, 100, 120, 150, 200, 300, 500, 1_000, 2_000, 5_000, 10_000];
const durations = [
  0, 10, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 50_000, 59_000, 60_000, 90_000, 120_000,
  180_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000,
];
const positive = durations.filter((ms) => ms > 0);

export function TrafficFields() {
  const { traffic } = scenario.value;
  const hasClients = traffic.kind !== "log";
  return (
    <fieldset class="card">
      <legend>Traffic</legend>
      <Choice
        label="Pattern"
        value={traffic.kind}
        choices={kinds}
        onChange={(kind) => changeScenario({ traffic: firstTraffic[kind] })}
      />
      <PatternFields key={traffic.kind} traffic={traffic} />
      {hasClients && traffic.kind !== "times" && (
        <Field
          label="Length"
          field={scenarioFields.length}
          value={scenario.value.lengthMs}
          steps={positive.filter((ms) => ms >= 1_000)}
          onChange={(lengthMs) => changeScenario({ lengthMs })}
        />
      )}
      {hasClients && <ClientFields />}
      <RetryFields />
    </fieldset>
  );
}

function PatternFields({ traffic }: { readonly traffic: Traffic }) {
  const { kind } = traffic;
  switch (kind) {
    case "steady":
    case "poisson":
      return (
        <Field
          label="Rate"
          field={scenarioFields.rate}
          value={traffic.rate}
          steps={counts.map((count) => ({ ...traffic.rate, count }))}
          order={(rate: Rate) => rate.count / rate.windowMs}
          onChange={(rate) => changeScenario({ traffic: { kind, rate } })}
        />
      );
    case "bursts":
      return <BurstFields traffic={traffic} />;
    case "times":
      return (
        <Field
          label="Seconds"
          field={scenarioFields.at}
          value={traffic.times}
          onChange={(times) => changeScenario({ traffic: { kind, times } })}
        />
      );
    case "log":
      return <LogInput />;
    default:
      return kind satisfies never;
  }
}

type BurstTraffic = Extract<Traffic, { readonly kind: "bursts" }>;

function BurstFields({ traffic }: { readonly traffic: BurstTraffic }) {
  const change = (changed: Partial<BurstTraffic>): void => changeScenario({ traffic: { ...traffic, ...changed } });
  return (
    <>
      <Field
        label="Requests per burst"
        field={scenarioFields.size}
        value={traffic.size}
        steps={counts}
        onChange={(size) => change({ size })}
      />
      <Field
        label="Sent within"
        field={scenarioFields.within}
        value={traffic.withinMs}
        steps={durations}
        onChange={(withinMs) => change({ withinMs })}
      />
      <Field
        label="First burst at"
        field={scenarioFields.first}
        value={traffic.firstMs}
        steps={durations}
        onChange={(firstMs) => change({ firstMs })}
      />
      <Field
        label="Every"
        field={scenarioFields.every}
        value={traffic.everyMs}
        steps={positive}
        onChange={(everyMs) => change({ everyMs })}
      />
    </>
  );
}

const clientCounts = [1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000];
const skews = [0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.5, 2, 3];
const costs = [1, 2, 3, 5, 10, 20, 50, 100];

function ClientFields() {
  const { keys, skew, cost, runsMs, seed } = scenario.value;
  return (
    <>
      <Field
        label="Clients"
        field={scenarioFields.keys}
        value={keys}
        steps={clientCounts}
        onChange={(value) => changeScenario({ keys: value })}
      />
      {keys > 1 && (
        <Field
          label="Uneven (Zipf)"
          field={scenarioFields.skew}
          value={skew}
          steps={skews}
          onChange={(value) => changeScenario({ skew: value })}
        />
      )}
      <Field
        label="Cost of a request"
        field={scenarioFields.cost}
        value={cost}
        steps={costs}
        onChange={(value) => changeScenario({ cost: value })}
      />
      <Field
        label="Requests take"
        field={scenarioFields.runs}
        value={runsMs}
        steps={durations}
        onChange={(value) => changeScenario({ runsMs: value })}
      />
      <Field
        label="Seed"
        field={scenarioFields.seed}
        value={seed}
        onChange={(value) => changeScenario({ seed: value })}
      />
    </>
  );
}

const retryKinds: Readonly<Record<RetryKind, string>> = {
  none: "Give up",
  obey: "Retry after Retry-After",
  jitter: "Retry-After, and a random time",
  ignore: "Retry, and ignore Retry-After",
};

function RetryFields() {
  const { retries } = scenario.value;
  const { kind } = retries;
  const change = (changed: Partial<Retries>): void => changeScenario({ retries: { ...retries, ...changed } });
  return (
    <>
      <Choice label="Denied clients" value={kind} choices={retryKinds} onChange={(value) => change({ kind: value })} />
      {(kind === "ignore" || kind === "jitter") && (
        <Field
          label={kind === "ignore" ? "Pause" : "Random time up to"}
          field={scenarioFields.pause}
          value={retries.pauseMs}
          steps={durations}
          onChange={(pauseMs) => change({ pauseMs })}
        />
      )}
      {kind !== "none" && (
        <Field
          label="Most retries"
          field={scenarioFields.attempts}
          value={retries.attempts}
          steps={[0, 1, 2, 3, 4, 5, 10, 20]}
          onChange={(attempts) => change({ attempts })}
        />
      )}
    </>
  );
}
