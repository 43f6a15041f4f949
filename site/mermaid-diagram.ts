/** Draws a diagram in the theme that the reader chose. Until it is drawn, and without scripts, its text is shown. */
import mermaidUrl from "@mermaid-js/tiny/dist/mermaid.tiny.js?url";
import { useData } from "vitepress";
import { defineComponent, h, onMounted, shallowRef, useId, watch } from "vue";

interface Options {
  readonly startOnLoad: boolean;
  readonly theme: string;
  readonly flowchart: Size;
  readonly sequence: Size;
}

interface Size {
  readonly useMaxWidth: boolean;
}

/** The part of mermaid that this file uses: https://mermaid.js.org/config/usage.html */
interface Mermaid {
  readonly initialize: (options: Options) => void;
  readonly render: (id: string, code: string) => Promise<{ readonly svg: string }>;
}

declare global {
  // oxlint-disable-next-line vars-on-top, no-var -- a script declares it
  var mermaid: Mermaid | undefined;
}

let loading: Promise<Mermaid> | undefined;

/** Only pages with a diagram load the script, which is a third of the whole site. */
function loadMermaid(): Promise<Mermaid> {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = mermaidUrl;
    script.addEventListener("load", () => {
      if (globalThis.mermaid === undefined) reject(new Error(`${mermaidUrl} does not declare mermaid`));
      else resolve(globalThis.mermaid);
    });
    script.addEventListener("error", () => reject(new Error(`${mermaidUrl} cannot be loaded`)));
    document.head.append(script);
  });
  return loading;
}

export const MermaidDiagram = defineComponent({
  props: { code: { type: String, required: true } },
  setup(props) {
    const { isDark } = useData();
    const id = `diagram-${useId()}`;
    const code = decodeURIComponent(props.code);
    const svg = shallowRef("");
    const draw = async (): Promise<void> => {
      const mermaid = await loadMermaid();
      const theme = isDark.value ? "dark" : "default";
      // A diagram wider than the page scrolls: in a smaller one, nobody can read the texts.
      const size = { useMaxWidth: false };
      mermaid.initialize({ startOnLoad: false, theme, flowchart: size, sequence: size });
      svg.value = (await mermaid.render(id, code)).svg;
    };
    onMounted(() => watch(isDark, draw, { immediate: true }));
    return () =>
      svg.value === "" ? h("pre", { class: "diagram" }, code) : h("div", { class: "diagram", innerHTML: svg.value });
  },
});
