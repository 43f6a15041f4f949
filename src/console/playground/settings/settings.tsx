/** The limits and the traffic of a scenario, and the links and texts that share it. */
import "./settings.css";
import { loads } from "../page-state.ts";
import { Share } from "../share.tsx";
import { LaneChoice, LimitsField } from "./limits-field.tsx";
import { TrafficFields } from "./traffic-fields.tsx";

/** Beside the result, or above it and closed where there is no room for both. */
const isWide = matchMedia("(min-width: 60rem)").matches;

/** Fields keep what is typed. They begin anew when everything is replaced. */
export const Settings = () => (
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
