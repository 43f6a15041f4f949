/** The view "Playground": limits and traffic on one side, what each strategy makes of them on the other. */
import { useEffect } from "preact/hooks";
import { followUrl, loads, openPreset, scenarioText, urlProblems } from "./page-state.ts";
import { presets } from "./model/presets.ts";
import { Results } from "./results.tsx";
import { runChanges } from "./runner.ts";
import { parseScenario, formatScenario } from "./model/scenario-query.ts";
import { LaneChoice, LimitsField } from "./settings/limits-field.tsx";
import { TrafficFields } from "./settings/traffic-fields.tsx";
import { Share } from "./share.tsx";

export function PlaygroundView() {
  useEffect(() => {
    const stops = [followUrl(), runChanges()];
    return () => {
      for (const stop of stops) stop();
    };
  }, []);
  return (
    <div class="pg">
      <h1>Playground</h1>
      <p class="pg-intro">
        Choose limits and traffic, and see what every strategy allows. The engine that enforces your
        limits decides each request, here in your browser.
      </p>
      <Presets />
      <UrlProblems />
      <div class="pg-columns">
        <Settings />
        <Results />
      </div>
    </div>
  );
}

const presetTexts = presets.map((preset) => ({
  ...preset,
  written: formatScenario(parseScenario(preset.query).scenario),
}));

function Presets() {
  const current = presetTexts.find(({ written }) => written === scenarioText.value);
  return (
    <section class="pg-presets" aria-label="Examples">
      <div class="row">
        {presetTexts.map(({ id, title, query, written }) => (
          <button
            key={id}
            type="button"
            aria-pressed={written === scenarioText.value}
            onClick={() => openPreset(query)}
          >
            {title}
          </button>
        ))}
      </div>
      <p class="pg-preset-text">{current?.text ?? "Your own scenario."}</p>
    </section>
  );
}

function UrlProblems() {
  const problems = urlProblems.value;
  if (problems.length === 0) return null;
  return (
    <div class="card problem" role="alert">
      <p>Parts of the link are not valid. Their defaults are shown instead.</p>
      <ul>
        {problems.map((problem) => (
          <li key={problem}>{problem}</li>
        ))}
      </ul>
      <button type="button" onClick={() => (urlProblems.value = [])}>
        Dismiss
      </button>
    </div>
  );
}

/** Beside the result, or above it and closed where there is no room for both. */
const isWide = matchMedia("(min-width: 60rem)").matches;

/** Fields keep what is typed. They begin anew when everything is replaced. */
const Settings = () => (
  <details class="pg-settings" open={isWide}>
    <summary>Limits and traffic</summary>
    <form onSubmit={(event) => event.preventDefault()}>
      <div class="card" key={`limits-${loads.value}`}>
        <LimitsField />
        <LaneChoice />
      </div>
      <TrafficFields key={`traffic-${loads.value}`} />
    </form>
    <Share />
  </details>
);
