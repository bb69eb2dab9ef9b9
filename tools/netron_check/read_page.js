// Read what Netron's page shows: the graph's elements in the SVG, and the sidebars of all objects.
//
// Returns { error } if the page shows a message instead of a graph, else { nodes, edges, inputs,
// outputs, model, graph }. Only the document is read, and objects are clicked; Netron's own objects
// are left alone.
async (timeoutMs) => {
    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
    const click = (element) => element.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    // The body is created later than the document.
    const page = { contains: (name) => document.body && document.body.classList.contains(name) };
    const message = () => document.getElementById('message-text').innerText;
    const end = Date.now() + timeoutMs;
    while (!page.contains('default')) {
        if (page.contains('alert') || page.contains('message') || page.contains('notification')) {
            return { error: message() };
        }
        if (Date.now() > end) {
            return { error: `nothing is shown after ${timeoutMs} ms` };
        }
        await pause(10);
    }

    // Without this, the browser would compute the layout of all numbers of each tensor.
    document.head.appendChild(document.createElement('style')).textContent =
        '#sidebar-content pre { display: none }';
    // The numbers of a tensor are shown by a later task.
    const ownText = (pre) => Array.from(pre.childNodes)
        .filter((each) => each.nodeType === Node.TEXT_NODE)
        .map((each) => each.textContent).join('');
    const line = (element) => {
        const pre = element.querySelector('pre');
        if (!pre) {
            return { text: element.textContent };
        }
        const text = Array.from(element.children).filter((each) => each !== pre)
            .map((each) => each.textContent).join('');
        return { text, content: ownText(pre) };
    };
    const sidebar = async (element) => {
        click(element);
        const content = document.getElementById('sidebar-content');
        for (const each of all('.sidebar-item-value-expander', content)) {
            if (each.textContent === '+') {
                click(each);
            }
        }
        while (all('pre', content).some((pre) => pre.textContent === '\u23F3')) {
            await pause(1);
        }
        const sections = {};
        let section = 'Properties';
        for (const child of all('.sidebar-object > *', content)) {
            if (child.className === 'sidebar-section') {
                section = child.textContent;
            } else if (child.className === 'sidebar-item') {
                const values = all('.sidebar-item-value', child).map((value) =>
                    Array.from(value.children)
                        .filter((each) => each.className.startsWith('sidebar-item-value-line'))
                        .map(line));
                const name = child.querySelector('input').value;
                sections[section] = (sections[section] || []).concat([{ name, values }]);
            } else {
                sections.Errors = (sections.Errors || []).concat([child.textContent]);
            }
        }
        return sections;
    };

    const nodes = [];
    for (const node of all('#nodes > .graph-node')) {
        const title = node.querySelector('.node-item-type');
        nodes.push({
            title: title.querySelector('text').textContent,
            sidebar: await sidebar(title)
        });
    }
    const titles = (selector) => all(`${selector} text`).map((text) => text.textContent);
    const result = {
        nodes,
        edges: all('#edge-paths > path').length,
        inputs: titles('#nodes > .graph-input'),
        outputs: titles('#nodes > :not(.graph-node) > .graph-item-output'),
        model: await sidebar(document.getElementById('sidebar-model-button')),
        graph: await sidebar(document.getElementById('sidebar-target-button'))
    };
    return page.contains('default') ? result : { error: message() };
}
