/** Links with a token that are opened in a tab of the console, which the browser does not load again. */
import { errorOf } from "../api/client.ts";
import { acceptToken, operator, session, takeTokenOfUrl } from "./session.ts";
import { showToast } from "./toasts.tsx";

export const followTokenLinks = (): void => addEventListener("hashchange", () => void follow());

/** A token that is accepted replaces that of the tab. The page is loaded again, without what the former operator saw. */
async function follow(): Promise<void> {
  const given = takeTokenOfUrl();
  if (given === null) return;
  try {
    await acceptToken(given);
    location.reload();
  } catch (error) {
    const problem = errorOf(error).message;
    const name = operator.value?.name;
    if (name === undefined) session.value = { kind: "signed-out", problem };
    else showToast({ text: `The link's token is not used. ${problem} You are still ${name}.`, kind: "problem" });
  }
}
